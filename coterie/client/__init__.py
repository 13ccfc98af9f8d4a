"""A small blocking client of the Kafka protocol for the command line; it works with any Kafka.

`connection.py` talks to one broker; `cluster.py` finds the right broker (coordinator, leader or
any) and retries; `groups.py`, `offsets.py`, `topics.py` and `history.py` make the requests of the
commands. `progress.py`, `commit_times.py` and `software.py` find out how fast groups read, when
they committed and with which libraries; `health/` checks them (ADR 33). The client has no threads
and no connection pool, and caches nothing beyond one command.
docs/spec/client.md lists its rules.
"""
