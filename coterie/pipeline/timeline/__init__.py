"""The history of one group, worked out from its records in plain Python.

The same functions run in Spark's workers, in `coterie pipeline show` and in the replays: they take
the facts and generations of one group in order and give its rebalances, partition moves, ownership
and member sessions. Nothing here knows Spark, files or sockets.
"""
