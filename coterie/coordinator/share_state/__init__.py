"""The share coordinator: what is persisted of share partitions, in `__share_group_state`."""
