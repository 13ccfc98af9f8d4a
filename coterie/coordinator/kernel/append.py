"""Appends: the records of operations, as a coordinator hands them to its runtime."""

from typing import NamedTuple

from coterie.protocol.record_batch_layout import (
    HEADER_BYTES,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
)
from coterie.protocol.wire import Message

# The largest batch of a coordinator's log: Kafka's default max.message.bytes, so that a Kafka
# broker can read the log.
MAX_BATCH_BYTES = 1_048_588
# The most bytes that a batch needs beside its records, and a record beside its key and value.
BATCH_OVERHEAD_BYTES = HEADER_BYTES
RECORD_OVERHEAD_BYTES = 24

# A decoded key and value; without a value it is a tombstone.
Record = tuple[Message, Message | None]
# An encoded key and value.
Pair = tuple[bytes, bytes | None]

# The records of an append without any, or whose records are written.
NO_RECORDS: list[Record] = []


class BatchForm(NamedTuple):
    """The header of a batch that belongs to a producer: a transaction's records, or its marker.

    Attributes:
        attributes: its bits, such as `TRANSACTIONAL`.
        producer_id, producer_epoch, base_sequence: of the producer.
    """

    attributes: int
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    base_sequence: int = 0


class Append:
    """The records of one operation; they go into one batch [coordinator/durable-responses].

    Attributes:
        partition: the partition of the internal topic.
        records: the records, at least one, unless there is a marker.
        form: the header of a batch of their own; None to share a plain batch with the operations
            before and after.
        marker: key and value of the marker of a transaction, with the form of its control batch.
        pairs: the records as bytes, if they are encoded already.
    """

    __slots__ = ("form", "marker", "pairs", "partition", "records")

    def __init__(
        self,
        partition: int,
        records: list[Record],
        form: BatchForm | None = None,
        marker: Pair | None = None,
        pairs: list[Pair] | None = None,
    ) -> None:
        assert records or marker is not None, "an append has records or a marker"
        assert marker is None or form is not None, "a marker has the header of a control batch"
        assert pairs is None or len(pairs) == len(records), "each record is encoded"
        self.partition = partition
        self.records = records
        self.form = form
        self.marker = marker
        self.pairs = pairs

    def __repr__(self) -> str:
        return f"Append({self.partition}, {self.records!r}, {self.form!r})"
