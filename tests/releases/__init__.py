"""How coterie/server/releases.tsv is made: see `made.py`."""
