"""What a partition remembers of idempotent producers, so that a retried batch is stored once
(KIP-98).

Per producer id: its epoch and its last five batches, as in Kafka. A batch that is one of them is a
duplicate and is answered with the offset it has; one that does not follow the last is out of order.
The state is rebuilt from the batch headers of the log when the partition is opened.

Invariant: an entry holds between one and five batches of one epoch, in the order of the log.
"""

from collections import deque
from typing import NamedTuple

from coterie.protocol.errors import ErrorCode
from coterie.protocol.records import BatchHeader

# A producer keeps at most five requests in flight, so a retry is one of the last five batches.
BATCHES_KEPT = 5
# Producers one partition remembers: about 1 KiB each. The one that was silent longest goes first.
# Kafka has no bound here, and every restart of every producer adds one.
MAX_PRODUCERS = 10_000

_LARGEST_SEQUENCE = 2**31 - 1


class Batch(NamedTuple):
    """A batch as far as a retry must be recognized."""

    base_sequence: int
    last_sequence: int
    base_offset: int
    timestamp_ms: int


class Producer:
    """One producer's epoch and last batches."""

    __slots__ = ("batches", "epoch", "last_seen_ms")

    def __init__(self, epoch: int) -> None:
        """Of an epoch, without batches yet."""
        self.epoch = epoch
        self.batches: deque[Batch] = deque(maxlen=BATCHES_KEPT)
        self.last_seen_ms = 0


class ProducerState:
    """The producers of one partition."""

    __slots__ = ("_expiration_ms", "_producers")

    def __init__(self, expiration_ms: int) -> None:
        """Forget a producer that was silent for `expiration_ms` (producer.id.expiration.ms)."""
        self._expiration_ms = expiration_ms
        self._producers: dict[int, Producer] = {}

    def __len__(self) -> int:
        return len(self._producers)

    def check(self, header: BatchHeader, now_ms: int) -> tuple[ErrorCode, Batch | None]:
        """Whether a batch may be appended: NONE, NONE and the batch it repeats, or why not."""
        producer = self._producers.get(header.producer_id)
        if producer is not None and now_ms - producer.last_seen_ms > self._expiration_ms:
            del self._producers[header.producer_id]
            producer = None
        if producer is None:
            # Kafka accepts any first sequence of a producer it does not know (any more).
            unknown = (
                ErrorCode.INVALID_PRODUCER_EPOCH if header.producer_epoch < 0 else ErrorCode.NONE
            )
            return unknown, None
        if header.producer_epoch < producer.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH, None
        base, last = header.base_sequence, header.last_sequence
        if header.producer_epoch > producer.epoch:
            fits = base == 0
        else:
            for batch in producer.batches:
                if batch.base_sequence == base and batch.last_sequence == last:
                    return ErrorCode.NONE, batch
            fits = base == _following(producer.batches[-1].last_sequence)
        return (ErrorCode.NONE if fits else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), None

    def record(self, header: BatchHeader, base_offset: int, seen_ms: int) -> None:
        """A batch of a producer was appended at `base_offset`, or found there when loading."""
        producer = self._producers.pop(header.producer_id, None)
        if producer is None or producer.epoch != header.producer_epoch:
            producer = Producer(header.producer_epoch)
        batch = Batch(
            header.base_sequence, header.last_sequence, base_offset, header.max_timestamp_ms
        )
        producer.batches.append(batch)
        producer.last_seen_ms = seen_ms
        # Put back at the end: the order of the dict is the order of the last batches.
        self._producers[header.producer_id] = producer
        if len(self._producers) > MAX_PRODUCERS:
            del self._producers[next(iter(self._producers))]


def _following(sequence: int) -> int:
    return 0 if sequence == _LARGEST_SEQUENCE else sequence + 1
