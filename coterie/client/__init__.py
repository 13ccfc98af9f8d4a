"""A small blocking client of the wire protocol, for the command line, good for any Kafka.

connection.py speaks to one broker, cluster.py finds the right one (coordinator, leader, any), and
groups.py, offsets.py and topics.py say what the commands ask of them. No threads, no pools, no
caches beyond one command's life.
"""
