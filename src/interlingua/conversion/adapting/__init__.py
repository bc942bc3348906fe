"""`adapt`: one module per pass, and the adapter that runs them."""
