"""The idempotent producers of a partition (KIP-98).

For each producer id this is its epoch and its last five batches, as in Kafka. A batch equal to one
of them is a retry and is answered with the offset of the stored one; a batch that does not follow
the last one is out of order [data-plane/duplicate-batch] [data-plane/sequence-numbers].

Invariant: a producer has one to five batches of one epoch, in the order of the log.
"""

from collections import deque
from typing import NamedTuple

from coterie.protocol.errors import ErrorCode
from coterie.protocol.records import BatchHeader

# A producer has at most five requests in flight, so a retry is one of its last five batches.
BATCHES_KEPT = 5
# The most producers that a partition remembers, at about 1 KiB each; the one that was silent
# longest is forgotten first [data-plane/producer-limits]. Kafka has no limit, and each restart of a
# producer adds one.
MAX_PRODUCERS = 10_000

_LARGEST_SEQUENCE = 2**31 - 1


class Batch(NamedTuple):
    """What identifies a batch, and what a retry of it is answered with."""

    base_sequence: int
    last_sequence: int
    base_offset: int
    timestamp_ms: int


class Producer:
    """The epoch and the last batches of one producer."""

    __slots__ = ("batches", "epoch", "last_seen_ms")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.batches: deque[Batch] = deque(maxlen=BATCHES_KEPT)
        self.last_seen_ms = 0


class ProducerState:
    """The producers of one partition."""

    __slots__ = ("_producers", "expiration_ms")

    def __init__(self, expiration_ms: int) -> None:
        """Forget producers that are silent for `expiration_ms` (producer.id.expiration.ms)."""
        self.expiration_ms = expiration_ms
        self._producers: dict[int, Producer] = {}

    def __len__(self) -> int:
        return len(self._producers)

    def check(self, header: BatchHeader, now_ms: int) -> tuple[ErrorCode, Batch | None]:
        """Check whether a batch may be appended.

        Returns:
            NONE and None if it may be appended, NONE and the stored batch for a retry, or the error
            for which it is refused.
        """
        producer = self._producers.get(header.producer_id)
        if producer is not None and now_ms - producer.last_seen_ms > self.expiration_ms:
            del self._producers[header.producer_id]
            producer = None
        if producer is None:
            # Kafka accepts any first sequence of an unknown producer.
            is_invalid = header.producer_epoch < 0
            return ErrorCode.INVALID_PRODUCER_EPOCH if is_invalid else ErrorCode.NONE, None
        if header.producer_epoch < producer.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH, None
        base, last = header.base_sequence, header.last_sequence
        if header.producer_epoch > producer.epoch:
            in_order = base == 0
        else:
            for batch in producer.batches:
                if batch.base_sequence == base and batch.last_sequence == last:
                    return ErrorCode.NONE, batch
            in_order = base == _next_sequence(producer.batches[-1].last_sequence)
        return ErrorCode.NONE if in_order else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, None

    def record(self, header: BatchHeader, base_offset: int, seen_ms: int) -> None:
        """Record a batch that was appended at `base_offset`, or that was found there on loading."""
        producer = self._producers.pop(header.producer_id, None)
        if producer is None or producer.epoch != header.producer_epoch:
            producer = Producer(header.producer_epoch)
        batches = producer.batches
        assert not batches or batches[-1].base_offset < base_offset, "batches are in log order"
        batches.append(
            Batch(header.base_sequence, header.last_sequence, base_offset, header.max_timestamp_ms)
        )
        producer.last_seen_ms = seen_ms
        # Inserted at the end, so that the dictionary is in the order of the last batches.
        self._producers[header.producer_id] = producer
        if len(self._producers) > MAX_PRODUCERS:
            del self._producers[next(iter(self._producers))]


def _next_sequence(sequence: int) -> int:
    return 0 if sequence == _LARGEST_SEQUENCE else sequence + 1
