"""The cluster: who is in it, where partitions are placed, and who leads and coordinates what."""
