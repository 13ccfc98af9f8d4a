"""A group member as a program: `python -m coterie.processes.member --library aiokafka ...`.

It is an ordinary consumer of kafka-python, aiokafka or confluent-kafka. It joins, reads and commits
until SIGTERM (a proper leave), SIGKILL (a crash) or the end of its standard input, which is the end
of its parent. It writes lines (coterie/processes/lines.py), and reads orders, JSON objects, from
standard input: {"join": true} if it was started with --join when-ordered, {"subscribe": [topic,
...]}, and {"slow": seconds} for the work on the next records.

It also runs with old releases of the libraries (on PYTHONPATH), which explains the checks for what
a library supports.
"""
