"""`python -m interlingua`: the command line, where its programs are not on the path."""

from .cli import main

if __name__ == "__main__":
    main()
