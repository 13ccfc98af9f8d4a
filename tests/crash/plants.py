"""The planted bugs, and the search that must find them."""

from collections.abc import Iterator

from tests.crash.campaign import CRASHES, Runner, Task, forget_recordings, length_of
from tests.crash.producers import LATER, STALE
from tests.planting import Plant, planted

PLANTS = (
    Plant(
        "an append is acknowledged without a sync",
        "coterie.storage.log:Log.sync",
        "pending.run()",
        "pass",
        ("power:commit:commit",),
    ),
    Plant(
        "a full segment is followed by the next without a sync",
        "coterie.storage.log:Log._roll",
        "if self.config.flush:",
        "if False:",
        ("power:group_commit:commit",),
    ),
    Plant(
        "a new segment's name is not synced",
        "coterie.storage.log:Log._begin_segment",
        "if self.config.flush:",
        "if False:",
        ("power:roll:commit",),
    ),
    Plant(
        "a log is used after a failed write or sync",
        "coterie.storage.sync:SyncState.stop",
        "self.failure = error",
        "return LogFailed(self._directory, error)",
        ("failing EIO:commit:commit",),
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
        "self.file.sync()",
        "pass",
        ("window:aar:commit",),
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
        "coterie.storage.swap:finish_swap",
        "_finish(filesystem, directory, base_offset, kinds, digests)",
        "[filesystem.remove(f'{directory}/{base_offset:020d}.{kind}.swap') for kind in kinds]",
        ("window:aar:commit",),
    ),
    Plant(
        "old segments are removed while the cleaned one still counts as unfinished",
        "coterie.storage.cleaner:Cleaning._swap",
        "cleaned.rename(SWAP_SUFFIX)",
        "pass",
        ("window:aar:commit",),
    ),
    Plant(
        "a tombstone is dropped by the first cleaning",
        "coterie.storage.retained:BatchFilter._horizon_has_passed",
        "return",
        "return True or",
        ("window:arAr:commit", "window:aArbr:commit"),
    ),
    Plant(
        "the oldest record of a key survives a cleaning",
        "coterie.storage.offset_map:OffsetMap.add",
        "self.last.update(",
        "[self.last.setdefault(map_key(key), place) for key in keys if key]; ({}).update(",
        ("window:aarar:commit",),
    ),
    Plant(
        "a recovery point is written for what was not synced",
        "coterie.storage.directory:DataDirectory.write_recovery_points",
        "key: log.synced_offset",
        "key: log.log_end_offset + 1",
        ("death:checkpoints:commit", "power:checkpoints:commit"),
    ),
    Plant(
        "the mark of a clean stop stays when the next run begins",
        "coterie.storage.last_stop:LastStop.begin",
        "if self.clean:",
        "if False:",
        ("death:clean_shutdown:commit",),
    ),
    Plant(
        "a checkpoint is replaced without a sync of its bytes",
        "coterie.storage.checkpoints:replace_file",
        "file.sync()",
        "pass",
        ("power:first_start:commit", "power:delete_topic:commit"),
    ),
    Plant(
        "a topic's directory is renamed for deletion without a sync",
        "coterie.storage.topic_directories:TopicDirectories._finish_renaming",
        "if self._durable:",
        "if False:",
        ("power:delete_topic:commit",),
    ),
    Plant(
        "a snapshot that is ahead of the log is used after a loss of power",
        "coterie.storage.producer_loading:ProducerLoading.finish",
        "end_offset if trusted else self._from_offset",
        "end_offset + 100",
        (f"{LATER}:producers:never",),
    ),
    Plant(
        "a damaged snapshot is believed",
        "coterie.storage.producer_snapshots:decode_snapshot",
        "checksum.crc32c(memoryview(data)[_PREFIX.size :]) != crc",
        "False",
        (f"{STALE}:producers:commit",),
    ),
    Plant(
        "batches behind a snapshot are not read",
        "coterie.storage.producer_loading:ProducerLoading._read_batch",
        "header.base_offset < self._from_offset",
        "self._from_offset",
        ("death:producers:commit",),
    ),
    Plant(
        "segments are removed before the snapshot that replaces them is durable",
        "coterie.storage.log:Log._remove_before",
        "self._producers.snapshots.sync()",
        "pass",
        ("power:producers:commit",),
    ),
    Plant(
        "the transaction index of a recovered segment is never synced",
        "coterie.storage.aborted_transactions:TransactionIndex.replace",
        "not (entries or existing)",
        "entries == existing",
        ("power:producers:commit",),
    ),
    Plant(
        "a log that begins anew keeps the transactions of the lost one",
        "coterie.storage.producer_loading:ProducerLoading.forget",
        "self.state = ProducerState()",
        "pass",
        ("power:producers:never",),
    ),
    Plant(
        "the records of one operation are written as two batches",
        "tests.crash.node:Node.turn",
        "log.append(batch)",
        "[log.append(encode_batch([pair], log.log_end_offset, self.now_ms)) for pair in pairs]",
        ("death:commit:commit",),
    ),
)

# Every fourth prefix is searched first.
_STEP = 4
# The plant that test_planted_bugs also searches for without planting it.
CANARY = PLANTS[0]


def _searches(kind: str, scenario: str, *, flush: bool) -> Iterator[list[str]]:
    """The failures of each task of those that together search every prefix."""
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
                kind, scenario, mode = where.split(":")
                if any(_searches(kind, scenario, flush=mode == "commit")):
                    return kind
        finally:
            forget_recordings()
    return ""
