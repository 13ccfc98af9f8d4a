"""What consumer groups, share groups and streams groups have in common [coordinator/live-groups].

Their members send heartbeats, the coordinator assigns, and each of them is what its records add up
to. A type derives its group, its members, its records, its step and its `GroupType` from these.
"""
