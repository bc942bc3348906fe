"""The canvas: a web page to view, search, compare and continue branching conversations."""
