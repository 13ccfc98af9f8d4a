"""Bugs planted into the guards between two operations, each found by the pairs that need the guard.

`docs/crashes.md` shows by which pairs each of them is found; `pair_table.py` makes and checks it.
"""

from collections.abc import Iterator
from typing import NamedTuple

from tests.crash.campaign import Runner, forget_recordings, pair_task
from tests.crash.pairs import Pair, pairs
from tests.crash.plants import REPLAY_UNASKED, SWAP_UNASKED
from tests.planting import Plant, planted


class PairPlant(NamedTuple):
    """A bug in the guard of an operation against others.

    Attributes:
        letter: in the table.
        operation: whose guard it is: pairs without it are not searched.
        bounds: the settings under which it is searched for.
        plant: the bug.
    """

    letter: str
    operation: str
    bounds: str
    plant: Plant


PAIR_PLANTS = (
    PairPlant(
        "A",
        "clean",
        "min-lag",
        Plant(
            "min.compaction.lag.ms lifts the bound of the write-ahead log (issue 24)",
            "coterie.storage.cleanable:cleanable",
            "end_offset = min(end_offset, segment.base_offset)",
            "end_offset = segment.base_offset",
            also=(SWAP_UNASKED, REPLAY_UNASKED),
        ),
    ),
    PairPlant(
        "B",
        "clean",
        "plain",
        Plant(
            "segments are cleaned of which a write-ahead file holds records",
            "coterie.storage.cleanable:cleanable",
            "if log.config.flush:",
            "if False:",
            also=(SWAP_UNASKED, REPLAY_UNASKED),
        ),
    ),
    PairPlant(
        "C",
        "settle",
        "plain",
        Plant(
            "a settled write-ahead file stays",
            "coterie.storage.write_ahead_log:WriteAheadFile.remove",
            "self._filesystem.remove(self._path)",
            "pass",
            also=(REPLAY_UNASKED,),
        ),
    ),
    PairPlant(
        "D",
        "settle",
        "plain",
        Plant(
            "a write-ahead file is removed before its logs are synced",
            "coterie.storage.write_ahead_log:WriteAheadLog.rotate",
            "{log: log.log_end_offset for log in self._settling.logs}",
            "{}",
        ),
    ),
    PairPlant(
        "E",
        "write-ahead",
        "plain",
        Plant(
            "a frame is acknowledged without a sync",
            "coterie.storage.write_ahead_log:WriteAheadFile.append",
            "self._file.sync()",
            "pass",
        ),
    ),
    PairPlant(
        "F",
        "recovery",
        "plain",
        Plant(
            "replayed segments are not synced",
            "coterie.storage.write_ahead_recovery:_write_partition",
            "file.sync()",
            "pass",
        ),
    ),
    PairPlant(
        "I",
        "create",
        "plain",
        Plant(
            "a topic begins where a deleted one of its name began",
            "coterie.storage.directory:DataDirectory._forget_deleted",
            "checkpoints.forget(lambda key: not self._directories.holds(key))",
            "pass",
        ),
    ),
    PairPlant(
        "K",
        "roll",
        "plain",
        Plant(
            "a new segment's name is not synced",
            "coterie.storage.log:Log._begin_segment",
            "self._has_unsynced_name = self.config.flush",
            "self._has_unsynced_name = False",
        ),
    ),
    PairPlant(
        "L",
        "delete-records",
        "plain",
        Plant(
            "a cleaning goes on though its segment was removed",
            "coterie.storage.cleaner:Cleaning._segments_exist",
            "not self._expected or self._log.holds(self._expected[0])",
            "True",
        ),
    ),
    PairPlant(
        "M",
        "alter",
        "plain",
        Plant(
            "altered settings are not synced",
            "coterie.server.logs.stored_settings:write_settings",
            "durable=durable",
            "durable=False",
        ),
    ),
    PairPlant(
        "N",
        "snapshot",
        "plain",
        Plant(
            "a recovery point is written for what was not synced",
            "coterie.storage.directory:DataDirectory.write_recovery_points",
            "key: log.synced_offset",
            "key: log.log_end_offset + 1",
        ),
    ),
    PairPlant(
        "O",
        "power-recovery",
        "plain",
        Plant(
            "of a segment without an entry only the digest of the next one is noted",
            "coterie.storage.segment_digests:SegmentDigests.replacing",
            "if not self.of(base_offset):",
            "if False:",
        ),
    ),
    PairPlant(
        "P",
        "other-software",
        "plain",
        Plant(
            "digests are believed after other software has used the directory",
            "coterie.storage.directory:DataDirectory._load_partitions",
            "if self.used_by_others:",
            "if False:",
        ),
    ),
    PairPlant(
        "Q",
        "other-software",
        "min-lag",
        Plant(
            "a replay does not ask whether a segment is the one that an entry names",
            REPLAY_UNASKED.target,
            REPLAY_UNASKED.old,
            REPLAY_UNASKED.new,
        ),
    ),
    PairPlant(
        "R",
        "delete",
        "plain",
        Plant(
            "a topic's directory is renamed for deletion without a sync",
            "coterie.storage.topic_directories:TopicDirectories._finish_renaming",
            "if self._durable:",
            "if False:",
        ),
    ),
    PairPlant(
        "S",
        "append",
        "plain",
        Plant(
            "an append is acknowledged without a sync",
            "coterie.storage.log:Log.sync",
            "pending.run()",
            "pass",
        ),
    ),
)
# A loss of power leaves many disks after each operation, so one in many is tried, and then others.
_SEARCHES = (("death", 7), ("power", 997), ("power", 249))


def candidates(planted_bug: PairPlant) -> Iterator[Pair]:
    """Yield the pairs that may find a bug: those with its operation."""
    for pair in pairs(planted_bug.bounds):
        if planted_bug.operation in (pair.first.name, pair.second.name):
            yield pair


def find_by(planted_bug: PairPlant, pair: Pair) -> str:
    """Search for a bug by one pair.

    Returns:
        The kind of crash that found it, "story" if the pair itself failed, or an empty string.
    """
    with planted(planted_bug.plant):
        forget_recordings()
        try:
            for kind, sample in _SEARCHES:
                task = pair_task(kind, pair.name)._replace(sample=sample)
                if Runner(task).run(most=1).failures:
                    return kind
        except Exception:
            # The broker itself is broken, in whatever way.
            return "story"
        finally:
            forget_recordings()
    return ""
