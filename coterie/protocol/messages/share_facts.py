"""Facts about deliveries of share groups in `coterie.journal`; `journal_records.py` lists all
facts.
"""

from coterie.protocol.wire import (
    RESPONSE_ELEMENT_BUDGET,
    Boolean,
    Int16,
    Int32,
    Int64,
    Message,
    String,
    Struct,
    message,
    since,
    struct,
)

# Why deliveries failed: the causes of `DeliveriesFailed`.
LOCK_TIMEOUT = "lock timeout"
RELEASE = "release"


@struct
class FailedDelivery(Struct):
    """Records that a member had and has not processed.

    Attributes:
        member_id: who had them.
        first_offset, last_offset: the records, both included.
        delivery_count: how often they were delivered, with this time.
        given_up: whether that was as often as the group allows.
    """

    member_id: String
    first_offset: Int64
    last_offset: Int64
    delivery_count: Int16
    given_up: Boolean


@message(versions=(0, 0), flexible=0, element_budget=RESPONSE_ELEMENT_BUDGET)
class DeliveriesFailed(Message):
    """Locks of records expired, or records were released for the last time [journal/deliveries].

    Attributes:
        cause: LOCK_TIMEOUT; or RELEASE, and then all of them are given up.
    """

    at_ms: Int64
    topic: String
    partition: Int32
    cause: String
    deliveries: list[FailedDelivery]
    node_id: Int32 = since(0, tag=9, default=-1)
