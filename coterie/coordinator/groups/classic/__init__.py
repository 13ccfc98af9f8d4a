"""Classic groups: members that join, elect a leader and receive its assignment.

A live group changes between its records; what bounds that is in [coordinator/live-groups].
"""
