"""One group member as a program: `python -m tests.live.member --library aiokafka --group g ...`.

It joins, reads, commits after every batch and prints what happens as JSON lines, until SIGTERM
(leave politely), SIGKILL (the crash that tests want) or the end of its standard input (the test
that started it is gone). Lines on standard input are orders: {"subscribe": ["topic", ...]}.

Events: started, assigned, revoked, lost, membership (generation, member id and whole assignment,
whenever one of them changed), record, committed, commit-failed, error, closed. Every line has
`at`, the seconds of the system-wide monotonic clock, so lines of several members can be ordered.

It runs under old releases of the libraries too (PYTHONPATH), hence the few questions about what a
client has.
"""
