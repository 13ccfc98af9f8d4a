"""The turns that may be longer than the limit, each with its reason and a limit of its own.

The output of the hunt names them, and docs/limits.md explains them to users.
"""

from typing import NamedTuple


class Documented(NamedTuple):
    """One exception.

    Attributes:
        most_ms: how much of a processor such a turn may use.
        reason: why it cannot be divided.
    """

    most_ms: float
    reason: str


_LARGE_BATCH = Documented(
    600.0,
    "a batch above 10 MiB, for which message.max.bytes must be raised, is checked, copied and"
    " written in one step",
)
_DECOMPRESSED = Documented(
    400.0,
    "a batch that is tens of MiB when it is decompressed is decompressed and checked in one step",
)
_LARGE_RESPONSE = Documented(
    150.0,
    "a response of 50 MiB, which a client has to ask for, is read, copied and written in one step",
)
_ONE_GROUP = Documented(
    200.0,
    "thousands of offsets of one group are one operation and one batch of its log, as in Kafka: all"
    " of them are there after a crash, or none",
)
_ONE_TRANSACTION = Documented(
    100.0,
    "thousands of partitions of one transaction are one record, and the offsets of one transaction"
    " are committed by one marker, as in Kafka",
)
_ONE_MEMBER = Documented(
    400.0,
    "a member that subscribes to thousands of topics, and gets a partition of each, has one record"
    " of its subscription, its target and its assignment each, as in Kafka; all are one batch",
)
_CLOSED_AT_ONCE = Documented(
    100.0, "the event loop learns of all connections that closed in one turn"
)

# By the name of the verb.
DOCUMENTED: dict[str, Documented] = {
    "Produce of one large batch": _LARGE_BATCH,
    "Produce of many records": _LARGE_BATCH,
    "Produce to 50 partitions": _LARGE_BATCH._replace(
        reason="the records of a request of 50 MiB are copied out of it in one step"
    ),
    "Produce of a compressed batch": _DECOMPRESSED,
    "Produce of compressed records": _DECOMPRESSED,
    "Fetch of 50 partitions": _LARGE_RESPONSE,
    "OffsetCommit, wide": _ONE_GROUP,
    "OffsetCommit, deep": _ONE_GROUP,
    "TxnOffsetCommit, wide": _ONE_GROUP,
    "TxnOffsetCommit, deep": _ONE_GROUP,
    "OffsetDelete, wide": _ONE_GROUP,
    "OffsetDelete, deep": _ONE_GROUP,
    "OffsetFetch, deep": _ONE_GROUP,
    "OffsetFetch of all offsets": _ONE_GROUP,
    "ConsumerGroupHeartbeat, wide": _ONE_MEMBER,
    "EndTxn of a transaction of all partitions": _ONE_TRANSACTION,
    "InitProducerId, pipelined, of old ids": _ONE_TRANSACTION,
    "5,000 connections closed at once": _CLOSED_AT_ONCE,
}
