"""Share groups (KIP-932): members that read the same partitions together.

The coordinator assigns partitions whose delivery state exists, and asks the share coordinator to
create that state. What is delivered to whom is no matter of it.
"""
