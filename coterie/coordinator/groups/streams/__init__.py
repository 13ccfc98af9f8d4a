"""Streams groups (KIP-1071): the coordinator knows the topology of an application, makes its tasks
and assigns them to members [streams-groups].
"""
