"""What is known of the closed segments of a compacted log [recovery/segment-digests]."""

import pytest

from coterie.protocol.records import iterate_batches
from coterie.storage.cleanable import cleanable
from coterie.storage.cleaner import Cleaning, clean
from coterie.storage.directory import DataDirectory
from coterie.storage.errors import CorruptLog
from coterie.storage.log import Log
from coterie.storage.log_config import LogConfig
from coterie.storage.segment_digests import FILE_NAME, SegmentDigest, SegmentDigests
from tests.unit.storage.conftest import Place
from tests.unit.storage.test_cleaner import CONFIG as CLEANER
from tests.unit.storage.test_cleaner import NOW_MS, pair
from tests.unit.storage.test_directory import opened

ID = bytes(range(16))
CONFIG = LogConfig(segment_bytes=400, compacted=True)
DIGESTS = f"t-0/{FILE_NAME}"
FIRST = f"t-0/{0:020d}.log"


def filled(memory: Place) -> tuple[DataDirectory, Log]:
    """Return a directory with a log of several segments."""
    directory = opened(memory)
    directory.create_partitions("t", [0], ID)
    log = directory.open_log("t", 0, CONFIG)
    for number in range(12):
        pair(log, b"k%d" % (number % 5), b"value %d" % number)
    assert len(log.segments) > 2
    return directory, log


def read_again(memory: Place, directory: DataDirectory) -> Log:
    """Restart after a kill, and read everything."""
    directory._lock.release()
    log = opened(memory).open_log("t", 0, CONFIG)
    list(log.chunks())
    return log


def shift_first_batch(memory: Place) -> None:
    """Change the offset of the first batch that a cleaning has left."""
    directory, log = filled(memory)
    clean(log, 0, NOW_MS, CLEANER)
    directory._lock.release()
    data = memory.read(FIRST)
    offset = int.from_bytes(data[:8])
    assert offset > 0, "the first record was dropped"
    memory.write(FIRST, (offset - 1).to_bytes(8) + data[8:])


def cuts(data: bytes) -> list[int]:
    return [position for position, _ in iterate_batches(data)]


@pytest.mark.parametrize("is_cleaned", [False, True])
def test_segment_that_is_cut_between_batches_is_damage(memory: Place, is_cleaned: bool) -> None:
    directory, log = filled(memory)
    if is_cleaned:
        clean(log, 0, NOW_MS, CLEANER)
        assert len(log.segments) == 2
    directory._lock.release()
    data = memory.read(FIRST)
    assert len(cuts(data)) > 1
    for size in cuts(data):
        memory.write(FIRST, data[:size])
        directory = opened(memory)
        with pytest.raises(CorruptLog, match=f"the file has {size} bytes"):
            directory.open_log("t", 0, CONFIG)
        directory._lock.release()


def test_changed_offset_of_a_batch_is_damage(memory: Place) -> None:
    """The checksum of a batch does not cover its offset, and a compacted log has gaps."""
    shift_first_batch(memory)
    # Without what we know of the segment the damage is not noticed.
    digests = memory.read(DIGESTS)
    for is_known in (True, False):
        if not is_known:
            memory.filesystem.remove(f"/data/{DIGESTS}")
        directory = opened(memory)
        log = directory.open_log("t", 0, CONFIG)
        if is_known:
            with pytest.raises(CorruptLog, match="its batches are not those"):
                list(log.chunks())
        else:
            list(log.chunks())
        directory._lock.release()
        memory.write(DIGESTS, digests)


def test_index_that_is_lost_too_does_not_hide_the_damage(memory: Place) -> None:
    shift_first_batch(memory)
    memory.filesystem.remove(f"/data/t-0/{0:020d}.index")
    log = opened(memory).open_log("t", 0, CONFIG)
    for _ in range(2):
        with pytest.raises(CorruptLog, match="its batches are not those"):
            list(log.chunks())


@pytest.mark.parametrize("content", [None, b"", b"\0" * 50, b"0\n1\n0 17 4\n"])
def test_segments_are_accepted_without_our_file(memory: Place, content: bytes | None) -> None:
    """A file that is damaged or has no checksum counts for nothing."""
    directory, log = filled(memory)
    if content is None:
        memory.filesystem.remove(f"/data/{DIGESTS}")
    else:
        memory.write(DIGESTS, content)
    assert read_again(memory, directory).log_end_offset == log.log_end_offset


def test_our_file_is_not_believed_after_another_program_has_cleaned(memory: Place) -> None:
    """Kafka writes its checkpoints without our checksum."""
    directory, log = filled(memory)
    clean(log, 0, NOW_MS, CLEANER)
    directory.set_cleaner_offset("t", 0, log.segments[-1].base_offset)
    data = memory.read(FIRST)
    memory.write(FIRST, data[: cuts(data)[-1]])  # as if Kafka had dropped a record
    memory.write("cleaner-offset-checkpoint", memory.read_plain("cleaner-offset-checkpoint"))
    log = read_again(memory, directory)
    assert log.size_bytes < len(data) + log.segments[-1].size
    assert DIGESTS.rpartition("/")[2] not in memory.filesystem.list("/data/t-0")
    memory.read_plain("cleaner-offset-checkpoint")  # It is ours again.
    log.roll()
    assert log.digests.of(log.segments[-2].base_offset) == (log.segments[-2].entry,)


def test_entries_of_segments_that_are_not_closed_are_dropped(memory: Place) -> None:
    directory, log = filled(memory)
    active = log.segments[-1]
    log.digests.closed(active.base_offset, active.entry)
    log.digests.closed(999, active.entry)
    log = read_again(memory, directory)
    bases = [segment.base_offset for segment in log.segments[:-1]]
    assert [base for base in range(1_000) if log.digests.of(base)] == bases


def test_only_the_newer_entry_counts_after_the_others_were_removed(memory: Place) -> None:
    """A crash after the swap, before the file has forgotten the segment that is replaced."""
    digests = SegmentDigests(memory.filesystem, "/data/t-0")
    old, cleaned, other = SegmentDigest(0, 0), SegmentDigest(108, 1), SegmentDigest(216, 2)
    digests.closed(0, old)
    digests.closed(6, other)
    digests.replacing(0, cleaned)
    assert digests.expected(0, next_offset=6) == (old, cleaned)
    assert digests.expected(0, next_offset=12) == (cleaned,)
    assert digests.expected(6, next_offset=12) == (other,)
    assert digests.expected(12, next_offset=20) == ()


def test_logs_that_are_not_compacted_have_no_such_file(memory: Place) -> None:
    directory = opened(memory)
    directory.create_partitions("t", [0], ID)
    log = directory.open_log("t", 0, CONFIG._replace(compacted=False))
    for number in range(12):
        pair(log, b"k", b"value %d" % number)
    assert len(log.segments) > 2
    assert FILE_NAME not in memory.filesystem.list("/data/t-0")


def test_a_kill_while_a_segment_without_an_entry_is_replaced(memory: Place) -> None:
    """The file was lost, as after a loss of power, and a cleaning has not named its segment yet."""
    directory, _ = filled(memory)
    directory._lock.release()
    memory.filesystem.remove(f"{memory.directory}/{DIGESTS}")
    directory = opened(memory)
    log = directory.open_log("t", 0, CONFIG)
    # Held until the end: a cleaning that is collected removes its files, at any moment.
    cleaning = Cleaning(log, cleanable(log, 0, NOW_MS, CLEANER), NOW_MS, CLEANER)
    for step in cleaning:
        if step.pending is not None:
            step.pending.run()
            break
    assert log.log_end_offset == read_again(memory, directory).log_end_offset
