"""Facts of the journal about partitions of `__consumer_offsets`; see `journal_records`."""

from coterie.protocol.wire import Int32, Int64, Message, String, message, since


@message(versions=(0, 0), flexible=0)
class PartitionLoaded(Message):
    """A partition of `__consumer_offsets` was loaded; the group id of the key is "".

    The fact is in the same journal partition as those about the groups, and is written only if
    there are groups [journal/partition-facts].
    """

    at_ms: Int64
    partition: Int32
    leader_epoch: Int32 = -1
    group_count: Int32
    member_count: Int32 = 0
    node_id: Int32 = since(0, tag=9, default=-1)


@message(versions=(0, 0), flexible=0)
class PartitionUnloaded(Message):
    """A partition of `__consumer_offsets` was unloaded; otherwise as `PartitionLoaded`.

    If a load has no unload before it, the broker was killed.

    Attributes:
        cause: "closed" (the broker stopped, or the partition moved) or "failed" (its log cannot be
            used).
    """

    at_ms: Int64
    partition: Int32
    leader_epoch: Int32 = -1
    group_count: Int32
    cause: String = "closed"
    node_id: Int32 = since(0, tag=9, default=-1)


def is_move(before: int, load: PartitionLoaded) -> bool:
    """Return whether a load is the move of a coordinator from another broker [journal/node].

    Args:
        before: the broker that coordinated before; -1 if it is not known or was the only one.
        load: the load.
    """
    return load.node_id not in (-1, before) and before >= 0
