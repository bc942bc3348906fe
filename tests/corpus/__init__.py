"""The recorded traffic of providers, run through every dialect; and what the vendors' own packages make of our streams.

The corpus lies beside the repository, or where `INTERLINGUA_CORPUS` says. `python -m tests.corpus` prints the result.
"""
