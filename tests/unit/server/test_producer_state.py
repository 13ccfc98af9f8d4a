"""Idempotent producers: new batches, retries, batches out of order; compared with Kafka 4.3.1."""

from coterie.protocol.errors import ErrorCode
from coterie.protocol.records import BatchHeader, Record, encode_records, read_header
from coterie.server.logs.producer_state import BATCHES_KEPT, MAX_PRODUCERS, ProducerState

PRODUCER = 7
DAY_MS = 86_400_000


def header(
    sequence: int, count: int = 1, *, epoch: int = 0, producer: int = PRODUCER
) -> BatchHeader:
    records = [Record(offset, 1000, b"k", b"v") for offset in range(count)]
    return read_header(
        encode_records(records, producer_id=producer, producer_epoch=epoch, base_sequence=sequence)
    )


class Log:
    """The producers of a partition, and its next offset."""

    def __init__(self) -> None:
        self.producers = ProducerState(DAY_MS)
        self.end = 0

    def produce(self, *args: int, now_ms: int = 0, **kwargs: int) -> int | ErrorCode:
        """Return the base offset of the response, or the error."""
        batch = header(*args, **kwargs)
        error, stored = self.producers.check(batch, now_ms)
        if error:
            return error
        if stored is not None:
            return stored.base_offset
        base = self.end
        self.producers.record(batch, base, now_ms)
        self.end += batch.record_count
        return base


def test_retry_gets_the_offset_of_the_stored_batch() -> None:
    log = Log()
    assert [log.produce(0), log.produce(1, 3), log.produce(4)] == [0, 1, 4]
    assert [log.produce(0), log.produce(1, 3), log.produce(4)] == [0, 1, 4]
    assert log.end == 5


def test_gap_or_part_of_a_batch_is_out_of_order() -> None:
    log = Log()
    log.produce(0, 2)
    assert log.produce(3) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.produce(0, 1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.produce(2) == 2


def test_only_the_last_five_batches_are_recognized() -> None:
    log = Log()
    for sequence in range(BATCHES_KEPT + 1):
        log.produce(sequence)
    assert log.produce(1) == 1
    assert log.produce(0) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_new_epoch_begins_at_zero_and_fences_the_old_one() -> None:
    log = Log()
    log.produce(0)
    assert log.produce(1, epoch=1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.produce(0, epoch=1) == 1
    assert log.produce(1) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert log.produce(1, epoch=1) == 2


def test_unknown_producer_may_begin_with_any_sequence() -> None:
    log = Log()
    assert log.produce(17) == 0
    assert log.produce(18) == 1


def test_sequences_wrap() -> None:
    log = Log()
    last = 2**31 - 1
    assert log.produce(last - 1, 2) == 0
    assert log.produce(0) == 2
    log = Log()
    assert log.produce(last, 2) == 0
    assert log.produce(1) == 2


def test_silent_producer_expires() -> None:
    log = Log()
    log.produce(0)
    assert log.produce(9, now_ms=DAY_MS) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.produce(9, now_ms=DAY_MS + 1) == 1


def test_producer_that_is_silent_longest_is_forgotten_first() -> None:
    producers = ProducerState(DAY_MS)
    batch = header(0)
    for producer in range(MAX_PRODUCERS):
        producers.record(batch._replace(producer_id=producer), producer, 0)
    producers.record(header(1, producer=0), 5, 0)
    producers.record(batch._replace(producer_id=MAX_PRODUCERS), 6, 0)
    assert len(producers) == MAX_PRODUCERS
    assert producers.check(header(1, producer=0), 0)[1] is not None
    assert producers.check(batch._replace(producer_id=1), 0) == (ErrorCode.NONE, None)
