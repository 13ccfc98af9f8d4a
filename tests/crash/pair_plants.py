"""Bugs planted into the guards between two operations, each found by the pairs that need the guard.

`pairs.tsv` shows by which pairs each of them is found; `pair_table.py` makes it. A
text is replaced where one bound or one way in the middle of a function is wrong.
"""

from collections.abc import Iterator
from typing import NamedTuple

from coterie.protocol.messages.consumer_group_records import ConsumerGroupTargetAssignmentMemberKey
from tests.crash.campaign import Runner, forget_recordings, pair_searches
from tests.crash.disk import syncs_nothing
from tests.crash.pairs import Pair, pairs
from tests.crash.plants import (
    EARLY_RECOVERY_POINT,
    NAMED_BY_TOPIC,
    REPLAY_UNASKED,
    SETTLED_EARLY,
    SEVERAL_BATCHES,
    SWAP_UNASKED,
    UNSYNCED_FRAME,
    UNSYNCED_REPLAY,
)
from tests.faults import answers, calling, does_nothing, without
from tests.planting import Plant, planted

# An offset behind every end of a log.
_NO_BOUND = 1 << 62


class PairPlant(NamedTuple):
    """A bug in the guard of some operations against others.

    Attributes:
        letter: in the table.
        operations: whose guard it is: pairs without one of them are not searched.
        plant: the bug.
        bounds: the settings under which it is searched for.
    """

    letter: str
    operations: tuple[str, ...]
    plant: Plant
    bounds: str = "plain"


PAIR_PLANTS = (
    PairPlant(
        "A",
        ("clean",),
        Plant(
            "min.compaction.lag.ms lifts the bound of the write-ahead log (issue 24)",
            "coterie.storage.cleanable:cleanable",
            "end_offset = min(end_offset, segment.base_offset)",
            "end_offset = segment.base_offset",
            also=(SWAP_UNASKED, REPLAY_UNASKED),
        ),
        "min-lag",
    ),
    PairPlant(
        "B",
        ("clean",),
        Plant(
            "segments are cleaned of which a write-ahead file holds records",
            "coterie.storage.log_write_ahead:LogWriteAhead.replaceable_end",
            fault=answers(_NO_BOUND),
            also=(REPLAY_UNASKED,),
        ),
    ),
    PairPlant(
        "C",
        ("settle",),
        Plant(
            "a settled write-ahead file stays",
            "coterie.storage.write_ahead_log:WriteAheadFile.remove",
            fault=does_nothing,
            also=(REPLAY_UNASKED,),
        ),
    ),
    PairPlant(
        "D",
        ("settle",),
        SETTLED_EARLY,
    ),
    PairPlant(
        "E",
        ("write-ahead",),
        UNSYNCED_FRAME,
    ),
    PairPlant(
        "F",
        ("recovery", "power-recovery"),
        UNSYNCED_REPLAY,
    ),
    PairPlant(
        "G",
        ("delete",),
        Plant(
            "the write-ahead log does not forget a deleted log",
            "coterie.storage.write_ahead_log:WriteAheadLog.forget",
            fault=does_nothing,
        ),
    ),
    PairPlant(
        "H",
        ("create",),
        NAMED_BY_TOPIC,
    ),
    PairPlant(
        "I",
        ("create",),
        Plant(
            "a topic begins where a deleted one of its name began",
            "coterie.storage.directory:DataDirectory._forget_deleted",
            fault=does_nothing,
        ),
    ),
    PairPlant(
        "J",
        ("retention",),
        Plant(
            "two segments are removed without a sync between them",
            "coterie.storage.segment_list:SegmentList.remove_before",
            fault=syncs_nothing,
        ),
        "small-retention",
    ),
    PairPlant(
        "K",
        ("roll",),
        Plant(
            "a new segment's name is not synced",
            "coterie.storage.log:Log._sync_name",
            fault=syncs_nothing,
        ),
    ),
    PairPlant(
        "L",
        ("delete-records",),
        Plant(
            "a cleaning goes on though its segment was removed",
            "coterie.storage.cleaner:Cleaning._segments_exist",
            fault=answers(True),
        ),
    ),
    PairPlant(
        "M",
        ("alter",),
        Plant(
            "altered settings are not synced",
            "coterie.server.metadata.stored_settings:write_settings",
            fault=syncs_nothing,
        ),
    ),
    PairPlant(
        "N",
        ("snapshot",),
        EARLY_RECOVERY_POINT,
    ),
    PairPlant(
        "O",
        ("power-recovery",),
        Plant(
            "of a segment without an entry only the digest of the next one is noted",
            "coterie.storage.segment_digests:SegmentDigests.replacing",
            "if not self.of(base_offset):",
            "if False:",
        ),
    ),
    PairPlant(
        "P",
        ("other-software",),
        Plant(
            "digests are believed after other software has used the directory",
            "coterie.storage.directory:DataDirectory._distrust_digests",
            fault=does_nothing,
        ),
    ),
    PairPlant("Q", ("other-software",), REPLAY_UNASKED, "min-lag"),
    PairPlant(
        "R",
        ("delete",),
        Plant(
            "a topic's directory is renamed for deletion without a sync",
            "coterie.storage.topic_directories:TopicDirectories._finish_renaming",
            fault=syncs_nothing,
        ),
    ),
    PairPlant(
        "S",
        ("append", "members", "migration", "delete-group", "take-over"),
        Plant(
            "an append is acknowledged without a sync",
            "coterie.storage.log:Log.sync",
            fault=syncs_nothing,
        ),
    ),
    PairPlant(
        "T",
        ("take-over",),
        Plant(
            "a coordinator does not load what only the write-ahead log has made durable",
            "coterie.server.coordinators.loading:LogReplay._work",
            "self._log.chunks(chunk_bytes=SLICE_BYTES)",
            "self._log._segments.chunks(0, self._log.synced_offset, SLICE_BYTES)",
        ),
    ),
    PairPlant(
        "U",
        ("create",),
        Plant(
            "a new topic's id is not synced",
            "coterie.storage.topic_directories:TopicDirectories._make_partition",
            fault=syncs_nothing,
        ),
    ),
    PairPlant(
        "V",
        ("delete-records", "retention"),
        Plant(
            "the start of a log is not synced",
            "coterie.storage.directory:DataDirectory.note_log_start",
            fault=syncs_nothing,
        ),
    ),
    PairPlant("W", ("members", "migration", "delete-group"), SEVERAL_BATCHES),
    PairPlant(
        "X",
        ("migration",),
        Plant(
            "an upgrade leaves the record of the classic group",
            "coterie.coordinator.groups.consumer.upgrade:upgrade",
            fault=calling("coterie.coordinator.groups.step:GroupStep.write", does_nothing),
        ),
    ),
    PairPlant(
        "Y",
        ("members", "delete-group"),
        Plant(
            "a departed member keeps its target",
            "coterie.coordinator.groups.recorded.group:RecordedGroup.member_tombstones",
            fault=without(ConsumerGroupTargetAssignmentMemberKey),
        ),
    ),
)


def candidates(planted_bug: PairPlant) -> Iterator[Pair]:
    """Yield the pairs that may find a bug: those with one of its operations."""
    for pair in pairs(planted_bug.bounds):
        if {pair.first.name, pair.second.name} & {*planted_bug.operations}:
            yield pair


def find_by(planted_bug: PairPlant, pair: Pair) -> str:
    """Search for a bug by one pair.

    Returns:
        The kind of crash that found it, "story" if the pair itself failed, or an empty string.
    """
    with planted(planted_bug.plant):
        forget_recordings()
        try:
            for task in pair_searches(pair.name):
                if Runner(task).run(most=1).failures:
                    return task.kind
        except Exception:
            # The broker itself is broken, in whatever way.
            return "story"
        finally:
            forget_recordings()
    return ""
