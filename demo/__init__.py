"""The main job in half a minute: `make demo`, or `python -m demo`.

One topic, one producer, one consumer group of three client libraries, each member a process of its
own; one member joins, one leaves, one is killed. The view shows who owns which partition all the
while, and the end says whether every record was read.
"""
