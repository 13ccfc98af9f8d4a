"""The planted bugs, and the search that must find them.

A text is replaced where one check of read bytes is left out, or one of several steps of a function
that writes: neither an argument nor a call stands for it.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from coterie.storage.filesystem import FileSystem
from coterie.storage.offset_map import OffsetMap, map_key
from coterie.storage.sync import SyncState
from coterie.storage.topic_directories import TopicDirectories
from coterie.storage.write_ahead_format import PartitionId
from tests.crash.campaign import CRASHES, Runner, Task, forget_recordings, length_of
from tests.crash.disk import syncs_nothing
from tests.crash.producers import LATER, STALE
from tests.faults import Function, answers, calling, does_nothing, given, keeps, with_first
from tests.planting import Plant, planted

# The guards against a replay into a segment that was rewritten stand behind each other.
REPLAY_UNASKED = Plant(
    "a replay does not ask whether a segment is the one that an entry names",
    "coterie.storage.write_ahead_recovery:_ReplayedSegment._holds_what_precedes",
    fault=answers(True),
    also=(
        Plant(
            "a replay does not ask whether a batch stands where it writes",
            "coterie.storage.write_ahead_recovery:_ReplayedSegment._stands_batch",
            fault=answers(False),
        ),
    ),
)
SWAP_UNASKED = Plant(
    "a swap does not ask whether a write-ahead file holds records of a segment",
    "coterie.storage.log_write_ahead:LogWriteAhead.check_replaceable",
    fault=does_nothing,
)
SEVERAL_BATCHES = Plant(
    "the records of one operation are written as two batches",
    "tests.crash.node:Node._append_groups",
    "log.append(batch)",
    "[log.append(encode_batch([pair], log.log_end_offset, self.now_ms)) for pair in pairs]",
    ("death:commit:commit",),
)


def _named_by_topic(_: Callable[..., PartitionId | None]) -> Callable[..., PartitionId]:
    """Let the write-ahead log call a partition by the name of its topic, and not by the id."""

    def named(_: TopicDirectories, topic: str, partition: int) -> PartitionId:
        return PartitionId(topic.encode().ljust(16)[:16], partition)

    return named


def _beyond_the_end(_: Function) -> Function:
    """Give an offset behind the end of a log in place of another of its offsets."""
    return lambda log: log.log_end_offset + 1


def _of_an_abort(marker_of: Function) -> Function:
    """Read each marker as that of an abort."""

    def read(*place: Any) -> Any:
        marker = marker_of(*place)
        return None if marker is None else marker._replace(commit=False)

    return read


def _discards_the_cleaned(_: Function) -> Function:
    """Remove the files of a cleaned segment in place of giving them their names."""

    def discard(
        filesystem: FileSystem, directory: str, base_offset: int, kinds: Iterable[str], _: object
    ) -> None:
        for kind in kinds:
            filesystem.remove(f"{directory}/{base_offset:020d}.{kind}.swap")

    return discard


def _keeps_the_oldest(_: Function) -> Function:
    """Note only the first place of a key."""

    def add(offsets: OffsetMap, keys: Iterable[bytes | None], place: int) -> None:
        for key in keys:
            if key is not None:
                offsets.last.setdefault(map_key(key), place)

    return add


# Bugs that pairs of operations have to find, too.
SETTLED_EARLY = Plant(
    "a write-ahead file is removed before its logs are synced",
    "coterie.storage.write_ahead_log:WriteAheadLog.rotate",
    fault=keeps("self._unsettled"),
    kinds=("power:many_commits:commit",),
)
UNSYNCED_FRAME = Plant(
    "a frame is acknowledged without a sync",
    "coterie.storage.write_ahead_log:WriteAheadFile.append",
    fault=syncs_nothing,
    kinds=("power:many_and_restart:commit",),
)
UNSYNCED_REPLAY = Plant(
    "replayed segments are not synced",
    "coterie.storage.write_ahead_recovery:_write_partition",
    fault=syncs_nothing,
    kinds=("power:many_and_restart:commit",),
)
NAMED_BY_TOPIC = Plant(
    "the write-ahead log names a topic and not its id",
    "coterie.storage.topic_directories:TopicDirectories.partition_id",
    fault=_named_by_topic,
    kinds=("power:many_and_a_new_topic:commit",),
)
EARLY_RECOVERY_POINT = Plant(
    "a recovery point is written for what was not synced",
    "coterie.storage.directory:DataDirectory.recovery_points_in_steps",
    fault=calling("coterie.storage.log:Log.synced_offset", _beyond_the_end),
    kinds=("death:checkpoints:commit", "power:checkpoints:commit"),
)

PLANTS = (
    Plant(
        "an append is acknowledged without a sync",
        "coterie.storage.log:Log.sync",
        fault=syncs_nothing,
        kinds=("power:commit:commit",),
    ),
    Plant(
        "a full segment is followed by the next without a sync",
        "coterie.storage.log:Log._roll",
        "if self.config.flush:",
        "if False:",
        ("power:group_commit:commit:41",),
    ),
    Plant(
        "a new segment's name is not synced",
        "coterie.storage.log:Log._begin_segment",
        fault=syncs_nothing,
        kinds=("power:roll:commit",),
    ),
    Plant(
        "a log is used after a failed write or sync",
        "coterie.storage.sync:SyncState.stop",
        fault=keeps("self.failure"),
        kinds=("failing EIO:commit:commit",),
    ),
    Plant(
        "a damaged end is cut off even if it is known to be durable",
        "coterie.storage.segment:Segment.recover",
        "if why is not None:",
        "if False:",
        ("sectors:commit:commit",),
    ),
    Plant(
        "a bad batch in an older segment is not checked",
        "coterie.storage.batches:_check",
        "if not is_right:",
        "if False:",
        ("flipped:roll:commit",),
    ),
    Plant(
        "a cleaned segment takes its place without a sync",
        "coterie.storage.swap:PendingDisk.run",
        fault=calling("tests.crash.disk:RecordingFile.sync", does_nothing),
        kinds=("window:aar:commit",),
    ),
    Plant(
        "old segments are removed before the cleaned one's name is synced",
        "coterie.storage.swap:PendingDisk.run",
        "if self.directory and not self.removed:",
        "if False:",
        ("window:aar:commit",),
    ),
    Plant(
        "a finished cleaning is discarded at a restart",
        "coterie.storage.swap:_finish",
        fault=_discards_the_cleaned,
        kinds=("window:aar:commit",),
    ),
    Plant(
        "old segments are removed while the cleaned one still counts as unfinished",
        "coterie.storage.log:Log.begin_swap",
        fault=calling("coterie.storage.segment:Segment.rename", does_nothing),
        kinds=("window:aar:commit",),
    ),
    Plant(
        "a tombstone is dropped by the first cleaning",
        "coterie.storage.retained:BatchFilter._horizon_has_passed",
        fault=answers(value=True),
        kinds=("window:arAr:commit", "window:aArbr:commit"),
    ),
    Plant(
        "the oldest record of a key survives a cleaning",
        "coterie.storage.offset_map:OffsetMap.add",
        fault=_keeps_the_oldest,
        kinds=("window:aarar:commit",),
    ),
    EARLY_RECOVERY_POINT,
    Plant(
        "the mark of a clean stop stays when the next run begins",
        "coterie.storage.last_stop:LastStop.begin",
        fault=calling("tests.crash.disk:RecordingFileSystem.remove", does_nothing),
        kinds=("death:clean_shutdown:commit",),
    ),
    Plant(
        "a checkpoint is replaced without a sync of its bytes",
        "coterie.storage.checkpoints:replace_file",
        fault=calling("tests.crash.disk:RecordingFile.sync", does_nothing),
        kinds=("power:first_start:commit", "power:delete_topic:commit"),
    ),
    Plant(
        "a topic's directory is renamed for deletion without a sync",
        "coterie.storage.topic_directories:TopicDirectories._finish_renaming",
        fault=syncs_nothing,
        kinds=("power:delete_topic:commit",),
    ),
    Plant(
        "a snapshot that is ahead of the log is used after a loss of power",
        "coterie.storage.producer_loading:ProducerLoading.finish",
        fault=calling(
            "coterie.storage.producer_snapshots:ProducerSnapshots.remove_after",
            given(offset=1 << 62),
        ),
        kinds=(f"{LATER}:producers:never",),
    ),
    Plant(
        "a damaged snapshot is believed",
        "coterie.storage.producer_snapshots:decode_snapshot",
        "checksum.crc32c(data[_PREFIX.size :]) != crc",
        "False",
        (f"{STALE}:producers:commit",),
    ),
    Plant(
        "the transaction index of the last segment is believed",
        "coterie.storage.producer_loading:ProducerLoading.end_segment",
        "is_ahead or self._has_skipped",
        "is_ahead",
        (f"{STALE}:producers:commit",),
    ),
    Plant(
        "a snapshot that is ahead of the log is believed",
        "coterie.storage.producer_loading:ProducerLoading.end_segment",
        "is_ahead or self._has_skipped",
        "self._has_skipped",
        (f"{LATER}:producers:never",),
    ),
    Plant(
        "batches behind a snapshot are not read",
        "coterie.storage.producer_loading:ProducerLoading._read_batch",
        "base_offset < self._from_offset",
        "self._from_offset",
        ("death:producers:commit",),
    ),
    Plant(
        "segments are removed before the snapshot that replaces them is durable",
        "coterie.storage.producer_snapshots:ProducerSnapshots._entries",
        fault=syncs_nothing,
        kinds=("power:producers:commit",),
    ),
    Plant(
        "the only durable snapshot is removed by the next start",
        "coterie.storage.producer_loading:ProducerLoading.finish",
        "self._snapshots.keep_durable(0, max(base_offsets))",
        "self._snapshots.prune(base_offsets, durable=False)",
        ("failing written and failed:producers:commit",),
    ),
    Plant(
        "a failed attempt to replace a file is written over",
        "coterie.storage.checkpoints:replace_file",
        "if not durable and filesystem.exists(new):",
        "if False:",
        ("failing EIO:compact_tombstones:commit",),
    ),
    Plant(
        "the transaction index of a recovered segment is never synced",
        "coterie.storage.aborted_transactions:TransactionIndex.replace",
        "not (entries or existing)",
        "entries == existing",
        ("power:producers:commit",),
    ),
    Plant(
        "a marker found behind a snapshot aborts what it has committed",
        "coterie.storage.producer_loading:note_batch",
        fault=calling("coterie.protocol.control_records:marker_of", _of_an_abort),
        kinds=("death:producers:commit",),
    ),
    Plant(
        "a marker does not end the transaction that was open at a snapshot",
        "coterie.storage.producer_loading:note_batch",
        fault=calling("coterie.storage.producer_state:ProducerState.end_transaction", does_nothing),
        kinds=("death:producers:commit",),
    ),
    Plant(
        "a log that begins anew keeps the transactions of the lost one",
        "coterie.storage.producer_loading:ProducerLoading.forget",
        fault=keeps("self.state"),
        kinds=("power:producers:never:41",),
    ),
    UNSYNCED_FRAME,
    Plant(
        "the name of a write-ahead file is not synced",
        "coterie.storage.write_ahead_log:WriteAheadFile.append",
        fault=calling("tests.crash.disk:RecordingFileSystem.sync_directory", does_nothing),
        kinds=("power:many_and_restart:commit",),
    ),
    Plant(
        "the checksum of a frame is not checked",
        "coterie.storage.write_ahead_format:_frame_end",
        "checksum.crc32c(checked) == crc",
        "True",
        ("power:many_and_restart:commit:24",),
    ),
    Plant(
        "the write-ahead log is not replayed",
        "coterie.storage.write_ahead_recovery:replay",
        fault=given(discard=True),
        kinds=("power:many_commits:commit",),
    ),
    UNSYNCED_REPLAY,
    NAMED_BY_TOPIC,
    SETTLED_EARLY,
    Plant(
        "a settled write-ahead file stays and is replayed later",
        "coterie.storage.write_ahead_log:WriteAheadFile.remove",
        fault=does_nothing,
        kinds=("death:many_and_moved:commit",),
        also=(REPLAY_UNASKED,),
    ),
    Plant(
        "the cleaner replaces segments of which a write-ahead file holds records",
        "coterie.storage.cleanable:cleanable",
        fault=calling(
            "coterie.storage.log_write_ahead:LogWriteAhead.replaceable_end", answers(1 << 62)
        ),
        kinds=("death:many_and_moved:commit",),
        also=(SWAP_UNASKED, REPLAY_UNASKED),
    ),
    Plant(
        "a frame follows one that could not be written",
        "coterie.storage.write_ahead_log:WriteAheadLog.end",
        fault=keeps("frame.file.closed"),
        kinds=("failing short write:many_commits:commit",),
    ),
    Plant(
        "a write-ahead file is removed although the sync of a log failed",
        "coterie.storage.write_ahead_log:WriteAheadLog.next_step",
        "self.stopped = True\n            raise",
        "del self._unsettled[log]\n            continue",
        ("failing EIO:many_commits:commit",),
    ),
    Plant(
        "a loss of power brings back the first of two removed segments",
        "coterie.storage.segment_list:SegmentList.remove_before",
        fault=with_first(2),
        kinds=("power:many_deleted_records:commit",),
    ),
    Plant(
        "a shortage of file handles stops a log",
        "coterie.storage.sync:SyncState.fail",
        fault=lambda _: SyncState.stop,
        kinds=("failing EMFILE:roll:commit",),
    ),
    Plant(
        "an append goes to the old segment after a roll that failed halfway",
        "coterie.storage.log:Log._begin_segment",
        "self._segments.add(segment)",
        "self._files.filesystem.sync_directory(self.directory); self._segments.add(segment)",
        ("failing EMFILE:compact:commit",),
    ),
    Plant(
        "the checksum of a checkpoint is not compared",
        "coterie.storage.seals:open_entries",
        "if bits and bits != _bits(path, plain):",
        "if False:",
        ("sectors:retention:commit",),
    ),
    Plant(
        "an interrupted write may begin with any offset",
        "coterie.storage.torn_tail:_header_refusal",
        "if tail[: BASE_OFFSET.size] != BASE_OFFSET.pack(expected_offset)[:left]:",
        "if False:",
        ("sectors:expire:commit",),
    ),
    Plant(
        "closed segments are not compared with their entries",
        "coterie.storage.log:Log._load",
        fault=calling("coterie.storage.segment_digests:SegmentDigests.read", does_nothing),
        kinds=("truncated:compact:commit",),
    ),
    Plant(
        "the entry of a cleaned segment is not written before the swap",
        "coterie.storage.swap:PendingDisk.run",
        fault=given({"self.first": None}),
        kinds=("window:aar:commit", "window:abrar:commit"),
    ),
    SEVERAL_BATCHES,
)

# Every fourth prefix is searched first.
_STEP = 4
# The plant that test_planted_bugs also searches for without planting it.
CANARY = PLANTS[0]


def _searches(where: str) -> Iterator[list[str]]:
    """The failures of each task of those that together search every prefix.

    Args:
        where: kind, scenario and mode. A prefix may follow, which is searched first: one that shows
            a bug which takes most of a minute to be found in the usual order.
    """
    kind, scenario, mode, *first = where.split(":")
    flush = mode == "commit"
    for prefix in map(int, first):
        yield Runner(Task(kind, scenario, flush, prefix, prefix)).run(most=1).failures
    end = length_of(kind, scenario, flush=flush)
    has_prefixes = kind in (*CRASHES, STALE, LATER)
    step = _STEP if has_prefixes else 1
    for start in range(step):
        # A sparse pass over all prefixes finds most plants early.
        for number in range(end - start, -1, -step):
            yield Runner(Task(kind, scenario, flush, number, number)).run(most=1).failures
            if not has_prefixes:
                return


def find(plant: Plant) -> str:
    """Search for a plant; return the kind of crash that found it, or an empty string."""
    with planted(plant):
        forget_recordings()
        try:
            for where in plant.kinds:
                if any(_searches(where)):
                    return where.partition(":")[0]
        finally:
            forget_recordings()
    return ""
