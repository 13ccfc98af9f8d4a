"""Cutting records off the end of a log: it is as if they had never been appended."""

import pytest

from coterie.storage.cut_end import cut_end
from coterie.storage.directory import DataDirectory
from coterie.storage.errors import OffsetOutOfRange
from coterie.storage.log import Log
from coterie.storage.log_config import LogConfig
from tests.unit.storage.conftest import Place
from tests.unit.storage.test_directory import ID, opened
from tests.unit.storage.test_log import batch, records_of

# A batch of three records has about a hundred bytes, so a segment has some batches.
CONFIG = LogConfig(segment_bytes=400)
BATCHES, RECORDS = 20, 3


def filled(place: Place) -> tuple[DataDirectory, Log]:
    """Return a log whose batches are each of an epoch of its own."""
    data = opened(place)
    data.create_partitions("t", range(2), ID)
    log = data.open_log("t", 0, CONFIG)
    for number in range(BATCHES):
        log.leader_epoch = number
        log.append(batch(*[b"old %d" % number] * RECORDS))
    assert len(log.segments) > 3
    return data, log


def values(log: Log) -> list[bytes | None]:
    return [record.value for chunk in log.chunks() for record in records_of(chunk)]


@pytest.mark.parametrize("number", [0, 1, 2, 7, 8, 9, 10, BATCHES - 1, BATCHES])
@pytest.mark.parametrize("within", [0, 1])
def test_log_goes_on_at_the_cut_and_is_found_so_at_the_next_start(
    place: Place, number: int, within: int
) -> None:
    data, old = filled(place)
    if number == BATCHES:
        within = 0
    log = cut_end(data, "t", 0, number * RECORDS + within, 0)
    assert data.open_log("t", 0) is log
    assert log is not old
    assert log.log_end_offset == number * RECORDS
    kept = [b"old %d" % each for each in range(number) for _ in range(RECORDS)]
    assert values(log) == kept
    assert log.leader_epoch == BATCHES - 1
    assert log.epochs.latest == number - 1
    log.leader_epoch = BATCHES
    assert log.append(batch(b"new")) == number * RECORDS
    data.close()
    again = opened(place)
    log = again.open_log("t", 0, CONFIG)
    assert values(log) == [*kept, b"new"]
    # With nothing left there is no older epoch to name.
    epoch = number - 1 if number else BATCHES - 1
    assert log.epochs.end_offset(BATCHES - 1, log.log_end_offset) == (epoch, number * RECORDS)
    again.close()


@pytest.mark.parametrize("offset", [-1, 9, 10, 61])
def test_offset_that_is_not_in_the_log_is_refused_and_nothing_changes(
    place: Place, offset: int
) -> None:
    data, log = filled(place)
    # Within the batch that begins at offset 9.
    data.delete_records("t", 0, 11)
    with pytest.raises(OffsetOutOfRange):
        cut_end(data, "t", 0, offset, 0)
    assert data.open_log("t", 0) is log
    assert log.log_end_offset == BATCHES * RECORDS
    data.close()
