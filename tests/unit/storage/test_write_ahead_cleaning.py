"""A write-ahead file is replayed after a cleaning: nothing that was acknowledged is destroyed.

Rules: [recovery/write-ahead-replay].
"""

import pytest

from coterie.protocol.records import decode_records, iterate_batches
from coterie.storage.cleanable import CleanerConfig, cleanable
from coterie.storage.cleaner import Cleaning, clean
from coterie.storage.errors import SegmentInUse
from coterie.storage.log import Log
from coterie.storage.log_write_ahead import LogWriteAhead
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


CONFIG = CleanerConfig(segment_bytes=1 << 20)


def clean_to(log: Log, end_offset: int, now_ms: int) -> None:
    """Clean a log up to an offset, whatever may be cleaned."""
    found = cleanable(log, 0, now_ms, CONFIG)._replace(end_offset=end_offset)
    for step in Cleaning(log, found, now_ms, CONFIG):
        if step.pending is not None:
            step.pending.run()


@pytest.mark.parametrize("number", [1, 4])
def test_a_segment_in_use_is_not_replaced_whatever_the_caller_asks(number: int) -> None:
    machine, now_ms = written()
    log = machine.logs[0]
    before = newest(log)
    names = sorted(machine.filesystem.list("data/t-0"))
    with pytest.raises(SegmentInUse, match="only segments before offset 0 may be replaced"):
        clean_to(log, log.segments[number].base_offset, now_ms)
    assert newest(log) == before
    found = sorted(machine.filesystem.list("data/t-0"))
    assert [name for name in found if name != "coterie-segments"] == [
        name for name in names if name != "coterie-segments"
    ]
    assert not log.failed


@pytest.mark.parametrize("is_first_format", [False, True], ids=["format 2", "format 1"])
@pytest.mark.parametrize("number", range(1, 7))
def test_a_replay_changes_no_segment_that_was_rewritten(
    number: int, is_first_format: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if a cleaning replaces segments of which a write-ahead file holds records."""
    monkeypatch.setattr(LogWriteAhead, "check_replaceable", lambda *_: None)
    machine, now_ms = written()
    log = machine.logs[0]
    before = newest(log)
    clean_to(log, log.segments[number].base_offset, now_ms)
    rewritten = machine.bytes_of(0)
    if is_first_format:
        machine.write_first_format()
    machine.directory._lock.release()
    assert machine.start().skipped > 0
    assert machine.bytes_of(0) == rewritten
    assert newest(machine.logs[0]) == before
