"""Kafka's and RocketMQ's assignors.

Each is a pure function from partition counts and subscriptions to an assignment, with the result of
the original [assignors/existing-topics]. The functions in `by_name.ASSIGNORS` need no further
input; `by-config`, `by-machine-room` and `nearby` (`machine_room.py`) need a configuration or
locations.
"""
