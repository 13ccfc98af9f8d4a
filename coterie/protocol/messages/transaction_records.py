"""The records of `__transaction_state`: one type, whose key is a transactional id.

Both versions that Kafka writes are read [transactions/log-records].
"""

from coterie.protocol.messages.record_types import RecordType, RecordTypes
from coterie.protocol.primitives import PREFIX_BYTES
from coterie.protocol.wire import (
    RESPONSE_ELEMENT_BUDGET,
    Int8,
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


@message(versions=(0, 0), flexible=None)
class TransactionLogKey(Message):
    """Record type 0: a transactional id."""

    transactional_id: String


@struct
class TransactionLogTopic(Struct):
    """The partitions of one topic that take part in the transaction."""

    topic: String
    partition_ids: list[Int32]


# The element limit of requests does not apply: a transaction must stay readable however large.
@message(versions=(0, 1), flexible=1, element_budget=RESPONSE_ELEMENT_BUDGET)
class TransactionLogValue(Message):
    """The state of a transactional id; a tombstone says that the id has expired.

    v1   flexible encoding, producer ids before and after, client's version (KIP-890)
    """

    producer_id: Int64
    producer_epoch: Int16
    transaction_timeout_ms: Int32
    transaction_status: Int8
    transaction_partitions: list[TransactionLogTopic] | None
    transaction_last_update_timestamp_ms: Int64
    transaction_start_timestamp_ms: Int64
    previous_producer_id: Int64 = since(1, tag=0, default=-1)
    next_producer_id: Int64 = since(1, tag=1, default=-1)
    client_transaction_version: Int16 = since(1, tag=2, default=0)


TRANSACTION_RECORDS = RecordTypes(
    [RecordType(0, "transaction_records", "TransactionLog", version=1)]
)

_OLD_PREFIX = bytes(PREFIX_BYTES)


def encode_old_value(value: TransactionLogValue) -> bytes:
    """Encode a value as Kafka does at level 0 of `transaction.version`."""
    return _OLD_PREFIX + value.encode(0)
