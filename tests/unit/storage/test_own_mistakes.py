"""Mistakes of our own code are noticed where they are made, not when records are missing.

Each of these calls is one that no right code makes.
"""

from itertools import count

import pytest

from coterie.protocol.records import encode_batch
from coterie.storage.directory import DataDirectory
from coterie.storage.log import Log
from coterie.storage.log_config import LogConfig
from coterie.storage.log_write_ahead import LogOffsetMetadata, end_of
from coterie.storage.segment_files import CLEANED_SUFFIX
from coterie.storage.write_ahead_format import ID_BYTES
from tests.unit.storage.conftest import Place


def directory_with_logs(memory: Place) -> tuple[DataDirectory, list[Log]]:
    file_ids = count(1)
    directory = DataDirectory.open(
        memory.filesystem,
        memory.directory,
        node_id=1,
        cluster_id="cluster",
        directory_id="d",
        durable=True,
        new_file_id=lambda: next(file_ids).to_bytes(ID_BYTES),
    )
    logs = []
    for number in (1, 2):
        directory.create_partitions(f"t{number}", [0], bytes([number]) * 16)
        logs.append(directory.open_log(f"t{number}", 0, LogConfig(flush=True)))
    for log in logs:
        log.append(encode_batch([(b"k", b"value")], 0, 1))
    return directory, logs


def test_a_file_that_has_logs_to_sync_is_not_removed(memory: Place) -> None:
    directory, logs = directory_with_logs(memory)
    write_ahead = directory.write_ahead
    assert write_ahead is not None
    frame = write_ahead.begin(logs)
    assert frame is not None
    frame.run()
    write_ahead.end(frame, None)
    write_ahead.rotate()
    step = write_ahead.next_step()
    assert step is not None
    with pytest.raises(AssertionError, match="each of its logs is synced"):
        write_ahead.end_step(step._replace(log=None), None)


def test_a_frame_of_a_failed_file_is_not_durable(memory: Place) -> None:
    directory, logs = directory_with_logs(memory)
    write_ahead = directory.write_ahead
    assert write_ahead is not None
    frame = write_ahead.begin(logs)
    assert frame is not None
    write_ahead.end(frame, OSError("the disk is gone"))
    with pytest.raises(AssertionError, match="a file that has failed"):
        write_ahead.end(frame, None)


def test_only_what_exists_is_durable(memory: Place) -> None:
    _, (log, _) = directory_with_logs(memory)
    log.sync()
    end = end_of(log.segments[-1])
    log.write_ahead.note(end)
    with pytest.raises(AssertionError, match="only what exists"):
        log.write_ahead.note(LogOffsetMetadata(end.offset + 1, 0, end.position, end.digest))


def test_a_cleaned_segment_ends_before_the_next_one(memory: Place) -> None:
    _, (log, _) = directory_with_logs(memory)
    log.roll()
    log.append(encode_batch([(b"k", b"value")], 0, 1))
    cleaned = log.new_segment(0, CLEANED_SUFFIX)
    cleaned.next_offset = 2
    with pytest.raises(AssertionError, match="it ends before the next one"):
        log.replace(log.segments[:1], cleaned)
