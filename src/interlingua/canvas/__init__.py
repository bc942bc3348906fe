"""The canvas: branching conversations in the browser, to be seen, searched, compared and continued."""
