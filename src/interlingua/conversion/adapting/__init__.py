"""`adapt`: passes by subject, and the adapter that runs them."""
