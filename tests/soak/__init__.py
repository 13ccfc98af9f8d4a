"""A soak: mixed load on one server for minutes, with oracles, and a plateau of what it uses.

`python -m tests.soak` (or `make soak`) starts `coterie serve` with a data directory and lets real
clients produce, consume in groups that rebalance all the time, commit, and administer topics and
groups. Oracles compare every answer with a ledger. Memory, open files and threads of the server are
sampled; after a warm-up they must stay level.
"""
