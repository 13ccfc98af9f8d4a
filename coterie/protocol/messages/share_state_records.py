"""The records of `__share_group_state`: the delivery state of share partitions (KIP-932).

A snapshot has the whole state of a share partition and an update what has changed since. Both have
the same key under different types; a tombstone is always that of the snapshot. Keys are never
flexible, values have version 0 and are flexible. Timestamps are milliseconds, field names Kafka's.
"""

from coterie.protocol.messages.record_types import RecordType, RecordTypes
from coterie.protocol.messages.share_state_batch import ShareStateBatch
from coterie.protocol.wire import (
    RESPONSE_ELEMENT_BUDGET,
    Int32,
    Int64,
    Message,
    String,
    Uuid,
    message,
    since,
)


@message(versions=(0, 0), flexible=None)
class ShareSnapshotKey(Message):
    """Record type 0: a share partition, for its whole state."""

    group_id: String
    topic_id: Uuid
    partition: Int32


@message(versions=(0, 0), flexible=0, element_budget=RESPONSE_ELEMENT_BUDGET)
class ShareSnapshotValue(Message):
    """The state of a share partition; a tombstone says that it has none any more.

    `delivery_complete_count` is the number of offsets from the start offset on that need no more
    delivery; -1 if absent, when it is not known.
    """

    snapshot_epoch: Int32
    state_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64
    delivery_complete_count: Int32 = since(0, tag=0, default=-1)
    create_timestamp: Int64
    write_timestamp: Int64
    state_batches: list[ShareStateBatch]


@message(versions=(0, 0), flexible=None)
class ShareUpdateKey(Message):
    """Record type 1: a share partition, for a change of its state."""

    group_id: String
    topic_id: Uuid
    partition: Int32


@message(versions=(0, 0), flexible=0, element_budget=RESPONSE_ELEMENT_BUDGET)
class ShareUpdateValue(Message):
    """What has changed since the snapshot with the same epoch and the updates before this one.

    A start offset of -1 keeps the one there is.
    """

    snapshot_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64
    delivery_complete_count: Int32 = since(0, tag=0, default=-1)
    state_batches: list[ShareStateBatch]


SHARE_STATE_RECORDS = RecordTypes(
    [
        RecordType(0, "share_state_records", "ShareSnapshot"),
        RecordType(1, "share_state_records", "ShareUpdate"),
    ]
)
