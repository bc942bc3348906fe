"""`interlingua chat`: an agent in the terminal. What is shown and what is decided is pure; two screens show it."""
