"""A write-ahead file is replayed after a cleaning: nothing that was acknowledged is destroyed."""

import pytest

from coterie.protocol.records import decode_records, iterate_batches
from coterie.storage.cleanable import CleanerConfig
from coterie.storage.cleaner import clean
from coterie.storage.log import Log
from tests.unit.storage.test_write_ahead_recovery import Machine

# Segments of a second or two: each of the lags below ends within another one.
STEP_MS = 250
ROUNDS = 40


def written() -> tuple[Machine, int]:
    """Return a machine whose logs have several segments, and the time after the last record.

    Keys have different lengths, and the first record of log 0 is not in the write-ahead file. So a
    place that the file names lies within a batch of the cleaned segment.
    """
    machine = Machine(compacted=True)
    machine.append_alone(0, key=b"alone", now_ms=0)
    machine.append_alone(0, key=b"alone", now_ms=0)
    for number in range(2, ROUNDS):
        key = b"%d" % (number % 13) * (number % 13 + 1)
        machine.append(0, 1, key=key, now_ms=number * STEP_MS)
    return machine, ROUNDS * STEP_MS


def newest(log: Log) -> dict[bytes, int]:
    """Return the keys of a log with the offset of the newest record."""
    return {
        record.key or b"": record.offset
        for chunk in log.chunks()
        for position, header in iterate_batches(chunk)
        for record in decode_records(chunk, header, position)
    }


@pytest.mark.parametrize("lag_ms", [0, 1, 2000, 5000, 60_000])
def test_nothing_is_lost_whatever_the_compaction_lag_is(lag_ms: int) -> None:
    machine, now_ms = written()
    before = newest(machine.logs[0])
    assert len(before) == 14
    config = CleanerConfig(min_compaction_lag_ms=lag_ms, segment_bytes=1 << 20)
    clean(machine.logs[0], 0, now_ms, config)
    assert newest(machine.logs[0]) == before
    # The process dies, and the machine runs on.
    machine.directory._lock.release()
    machine.start()
    assert newest(machine.logs[0]) == before
    assert machine.logs[0].log_end_offset == ROUNDS
