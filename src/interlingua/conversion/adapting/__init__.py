"""Handing a request to another target: one module per pass, and the adapter that runs them."""
