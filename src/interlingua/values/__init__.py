"""The conversation format as plain values, and what every layer needs of them."""
