"""A group member as a program: `python -m tests.live.member --library aiokafka --group g ...`.

It joins, reads and commits after every batch until SIGTERM (a proper leave), SIGKILL (a crash) or
the end of its standard input (the test has ended). It prints events as JSON lines, and reads orders
as JSON lines from standard input: {"subscribe": ["topic", ...]}, and {"join": true} if it was
started with `--join when-ordered`.

Events: started (its library is imported), assigned, revoked, lost, membership (generation, member
id and all partitions, whenever one of them has changed), record, committed, commit-failed, error,
closed. Every event has `at`, seconds of the system-wide monotonic clock, so the events of several
members can be ordered.

It also runs with old releases of the libraries (on PYTHONPATH), which explains the checks for what
a library supports.
"""
