"""`interlingua chat`: an agent in the terminal, with a full-screen and a plain front end."""
