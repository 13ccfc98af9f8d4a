"""The main job of a group coordinator in half a minute: `make demo`, or `python -m demo`.

One topic, one producer, and one consumer group of three client libraries, each member a process of
its own. A member joins, one leaves, and one is killed. The view shows the owner of each partition
all the time, and at the end the demo checks that every record was read.
"""
