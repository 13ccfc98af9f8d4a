"""How much a request or session of a share group does in one step of its work."""

# How many partitions are looked up in one step, and of how many records are read, acknowledged or
# released: about a millisecond. A request with more than the first is handled in slices.
HANDLED_AT_ONCE = 32
READ_AT_ONCE = 8
