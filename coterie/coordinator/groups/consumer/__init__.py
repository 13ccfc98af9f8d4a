"""Consumer groups (KIP-848): the coordinator computes the assignment, and members reconcile to it.

`states.py` describes the states of a group and of its members.
"""
