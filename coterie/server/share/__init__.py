"""The leader's side of share groups: share sessions, share partitions in memory, locks."""
