"""Facts about committed offsets in `coterie.journal`; `journal_records.py` lists all facts."""

from coterie.protocol.wire import (
    RESPONSE_ELEMENT_BUDGET,
    Int32,
    Int64,
    Message,
    String,
    Struct,
    message,
    since,
    struct,
)


@struct
class ExpiredOffset(Struct):
    """A committed offset at the time of its expiry."""

    partition: Int32
    committed_offset: Int64


@struct
class ExpiredTopic(Struct):
    """The expired offsets of one topic."""

    topic: String
    partitions: list[ExpiredOffset]


@message(versions=(0, 0), flexible=0, element_budget=RESPONSE_ELEMENT_BUDGET)
class OffsetsExpired(Message):
    """Committed offsets were removed at the end of their retention."""

    at_ms: Int64
    offset_count: Int32
    topics: list[ExpiredTopic]
    node_id: Int32 = since(0, tag=9, default=-1)
