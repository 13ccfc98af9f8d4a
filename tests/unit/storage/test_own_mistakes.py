"""Mistakes of our own code are noticed where they are made, not when records are missing.

Each of these calls is one that no right code makes.
"""

from contextlib import nullcontext
from itertools import count

import pytest

from coterie.protocol.records import encode_batch
from coterie.storage.directory import DataDirectory
from coterie.storage.index import OffsetIndex
from coterie.storage.leader_epochs import LeaderEpochs
from coterie.storage.log import Log
from coterie.storage.log_config import LogConfig
from coterie.storage.log_producers import LogProducers
from coterie.storage.log_write_ahead import LogOffsetMetadata, end_of
from coterie.storage.offset_checkpoints import OffsetCheckpoints
from coterie.storage.open_files import OpenFiles
from coterie.storage.producer_snapshots import ProducerSnapshots, encode_snapshot
from coterie.storage.producer_state import ENTRY_BYTES, ProducerState
from coterie.storage.seals import seal_entries, seal_lines, seal_properties
from coterie.storage.segment_digests import SegmentDigests
from coterie.storage.segment_files import CLEANED_SUFFIX
from coterie.storage.segment_list import SegmentList
from coterie.storage.swap import PendingDisk, removal
from coterie.storage.sync import SyncState
from coterie.storage.topic_directories import TopicDirectories
from coterie.storage.torn_tail import refusal
from coterie.storage.write_ahead_format import ID_BYTES, Entry, PartitionId, encode_frame
from coterie.storage.write_ahead_log import PendingFrame, WriteAheadFile
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


def test_a_batch_that_the_broker_made_has_the_next_offset(memory: Place) -> None:
    _, (log, _) = directory_with_logs(memory)
    batch = encode_batch([(b"k", b"value")], log.log_end_offset + 1, 1)
    with pytest.raises(AssertionError, match="the log's next offset"):
        log.append(batch, 1, made=1)


def test_a_cleaned_segment_ends_before_the_next_one(memory: Place) -> None:
    _, (log, _) = directory_with_logs(memory)
    log.roll()
    log.append(encode_batch([(b"k", b"value")], 0, 1))
    cleaned = log.new_segment(0, CLEANED_SUFFIX)
    cleaned.next_offset = 2
    with pytest.raises(AssertionError, match="it ends before the next one"):
        log.replace(log.segments[:1], cleaned)


def test_a_segment_of_the_log_is_not_swapped_in(memory: Place) -> None:
    _, (log, _) = directory_with_logs(memory)
    first = log.segments[0]
    with pytest.raises(AssertionError, match="not yet part of the log"):
        log.begin_swap([first], first)
    with pytest.raises(AssertionError, match="the name of the first"):
        log.begin_swap([first], log.new_segment(1, CLEANED_SUFFIX))


def test_a_swap_replaces_at_least_one_segment(memory: Place) -> None:
    _, (log, _) = directory_with_logs(memory)
    with pytest.raises(AssertionError, match="a replacement has segments"):
        log.write_ahead.check_replaceable([])
    with pytest.raises(AssertionError, match="removes at least one segment"):
        removal(memory.filesystem, log.directory, [])


def test_a_finished_segment_does_not_become_unfinished(memory: Place) -> None:
    _, (log, _) = directory_with_logs(memory)
    with pytest.raises(AssertionError, match="never counts as unfinished again"):
        log.segments[0].rename(CLEANED_SUFFIX)


def test_old_files_are_not_removed_while_the_new_one_is_synced(memory: Place) -> None:
    file = memory.filesystem.create(f"{memory.directory}/new")
    pending = PendingDisk(
        memory.filesystem, file=file, removed=(("old",),), directory=memory.directory
    )
    with pytest.raises(AssertionError, match="old files stay"):
        pending.run()


def test_the_facts_of_an_append_include_every_byte(memory: Place) -> None:
    log = Log.open(memory.filesystem, memory.directory)
    batch = encode_batch([(b"k", b"value")], 0, 1)
    facts = (0, len(batch), 0, 0, 1)
    with pytest.raises(AssertionError, match="the facts include every byte"):
        log.segments[0].append(batch + batch, facts)


def test_a_log_that_has_failed_is_neither_written_nor_synced(memory: Place) -> None:
    sync = SyncState(OpenFiles(memory.filesystem), memory.directory)
    sync.stop(OSError("the disk is gone"))
    with pytest.raises(AssertionError, match="nothing is written to a log that has failed"):
        sync.pin(f"{memory.directory}/file")
    with pytest.raises(AssertionError, match="is not synced again"):
        sync.begin([], 1)


def test_the_segments_reach_the_end_that_is_synced(memory: Place) -> None:
    sync = SyncState(OpenFiles(memory.filesystem), memory.directory)
    with pytest.raises(AssertionError, match="reach the end of the log"):
        sync.begin([], 1)


def test_a_segment_with_batches_does_not_become_the_active_one(memory: Place) -> None:
    _, (log, other) = directory_with_logs(memory)
    log.roll()
    segments = SegmentList([])
    with pytest.raises(AssertionError, match="empty when it becomes the active one"):
        segments.add(other.segments[0])
    segments.add(log.segments[1])
    with pytest.raises(AssertionError, match="offsets ascend"):
        segments.add(log.segments[1])


def test_a_read_of_committed_records_begins_before_its_end(memory: Place) -> None:
    _, (log, _) = directory_with_logs(memory)
    with pytest.raises(AssertionError, match="begins before its end"):
        SegmentList(list(log.segments)).read_committed(0, 1, 0)


def test_a_frame_of_one_log_is_not_written(memory: Place) -> None:
    _, (log, _) = directory_with_logs(memory)
    file = WriteAheadFile(memory.filesystem, memory.directory, bytes(ID_BYTES))
    with pytest.raises(AssertionError, match="saves syncs of several logs"):
        PendingFrame(file, {log: end_of(log.segments[-1])}, log.write_ahead.missing(), 1)


def test_a_frame_holds_a_log_once(memory: Place) -> None:
    directory, (log, _) = directory_with_logs(memory)
    assert directory.write_ahead is not None
    with pytest.raises(AssertionError, match="holds what a log got once"):
        directory.write_ahead.begin([log, log])


def test_an_entry_of_a_frame_has_the_whole_id_of_its_topic() -> None:
    entry = Entry(PartitionId(b"short", 0), 0, 0, b"data", 0)
    with pytest.raises(AssertionError, match="a topic id has 16 bytes"):
        encode_frame(bytes(ID_BYTES), 0, [entry])


def test_a_new_leader_epoch_replaces_at_most_one(memory: Place) -> None:
    epochs = LeaderEpochs(memory.filesystem, memory.directory, durable=False)
    epochs.start(1, 10)
    epochs.start(2, 20)
    with pytest.raises(AssertionError, match="at most one epoch has no batches"):
        epochs.start(3, 5)


def test_a_log_gets_no_epoch_before_it_is_opened(memory: Place) -> None:
    epochs = LeaderEpochs(memory.filesystem, memory.directory, durable=False)
    epochs.learning = True
    with pytest.raises(AssertionError, match="opened before it gets records"):
        epochs.start(1, 0)


def test_a_checkpoint_in_use_is_not_read_again(memory: Place) -> None:
    path = f"{memory.directory}/offsets"
    offsets = OffsetCheckpoints(memory.filesystem, path, durable=False, lock=nullcontext())
    offsets.update({("t", 0): 1})
    with pytest.raises(AssertionError, match="a checkpoint is read once"):
        offsets.load(needed=True)


def test_a_text_is_sealed_once() -> None:
    with pytest.raises(AssertionError, match="does not end with a blank"):
        seal_entries("file", seal_entries("file", "0\n1\nt 0 1\n")[:-33] + " \n")
    with pytest.raises(AssertionError, match="a file has one checksum"):
        seal_properties("file", seal_properties("file", "name=value\n"))
    with pytest.raises(AssertionError, match="without an empty one"):
        seal_lines("file", seal_lines("file", "version: 0"))


def test_a_snapshot_has_whole_entries_and_each_producer_once() -> None:
    state = ProducerState()
    with pytest.raises(AssertionError, match="whole entries"):
        state.restore(bytes(ENTRY_BYTES + 1), 1, 0, 0)
    state.add(7, 0, 0, 0, 0, 0, 0, is_transactional=False)
    state.entries.extend(bytes(ENTRY_BYTES))
    with pytest.raises(AssertionError, match="each producer once"):
        encode_snapshot(state)


def test_the_range_of_a_snapshot_begins_before_it_ends(memory: Place) -> None:
    producers = LogProducers(ProducerSnapshots(memory.filesystem, memory.directory))
    with pytest.raises(AssertionError, match="begins before it ends"):
        producers.keep_snapshot(2, 1, durable=False)


def test_a_segment_is_not_compared_with_what_follows_at_its_own_offset(memory: Place) -> None:
    digests = SegmentDigests(memory.filesystem, memory.directory)
    with pytest.raises(AssertionError, match="in the order of their offsets"):
        digests.expected(5, 5)


def test_only_partitions_that_exist_have_an_id(memory: Place) -> None:
    directories = TopicDirectories(memory.filesystem, memory.directory, durable=False)
    for _ in directories.create("t", [0], bytes(16)):
        pass
    with pytest.raises(AssertionError, match="a partition that exists"):
        directories.partition_id("t", 1)


def test_there_is_something_behind_the_last_batch(memory: Place) -> None:
    file = memory.filesystem.create(f"{memory.directory}/file")
    with pytest.raises(AssertionError, match="bytes behind the last batch"):
        refusal(file, 0, 0, 0, gaps=False)


def test_an_index_entry_that_does_not_ascend_is_refused(memory: Place) -> None:
    index = OffsetIndex(OpenFiles(memory.filesystem), f"{memory.directory}/0.index")
    index.append(5, 100)
    with pytest.raises(AssertionError, match="entries ascend"):
        index.append(5, 100)
