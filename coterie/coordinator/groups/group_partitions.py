"""The partitions of `__consumer_offsets` that this broker coordinates: their logs and their time.

This is the coordinator as its runtime sees it (`Machine`); `service.py` adds what clients request.
"""

from collections.abc import Callable, Iterable
from typing import Any

from coterie.coordinator.groups.classic.group import Group
from coterie.coordinator.groups.config import GroupConfig
from coterie.coordinator.groups.partition_state import GroupCount
from coterie.coordinator.groups.shard import Shard
from coterie.coordinator.kernel.effects import Effects, TimerKind
from coterie.coordinator.kernel.loading import NewestRecords
from coterie.coordinator.kernel.machine import OpenRecord, Pair, R, Record
from coterie.coordinator.kernel.purgatory import Purgatory
from coterie.coordinator.kernel.shard_state import ShardState
from coterie.coordinator.topic_image import TopicsImage
from coterie.protocol.errors import ErrorCode
from coterie.protocol.java_hash import partition_for
from coterie.protocol.messages.log_records import GROUP_RECORDS, encode_key, encode_value

# Of how many group ids the partition is kept, which takes longer to compute than to look up.
_REMEMBERED_SHARDS = 16_384
# How many timers are handled in one call: a few milliseconds. A sweep is as much as all of them.
_TIMERS_TOGETHER = 100


class GroupPartitions:
    """All partitions of `__consumer_offsets` that this broker coordinates.

    Attributes:
        config: the settings.
        topics: the topics of the cluster.
        purgatory: the timers of all partitions.
        shards: the partitions by number.
    """

    def __init__(
        self,
        config: GroupConfig,
        new_uuid: Callable[[], str],
        start_ms: int = 0,
        topics: TopicsImage | None = None,
    ) -> None:
        """Start without a loaded partition.

        Args:
            config: the settings.
            new_uuid: returns a new random UUID as text, for member ids.
            start_ms: the time.
            topics: the topics of the cluster; by default there are none.
        """
        self.topics = TopicsImage({}, {}) if topics is None else topics
        self.config = config
        self.purgatory = Purgatory(start_ms)
        # Hashing spreads ids evenly, so ids that were not chosen on purpose stay well below twice
        # the even share of a partition [coordinator/group-limit].
        partitions = config.offsets_topic_num_partitions
        max_groups = min(config.max_groups, 2 * config.max_groups // partitions + 1)
        self._all_groups = all_groups = GroupCount(config.max_groups)
        self.shards = [
            Shard(partition, config, new_uuid, max_groups, all_groups)
            for partition in range(partitions)
        ]
        self._partitions = partitions
        # Where the groups of the latest requests are.
        self._shard_of: dict[str, Shard] = {}

    # -- groups ------------------------------------------------------------------------------------

    def partition_for(self, group_id: str) -> int:
        """Return the `__consumer_offsets` partition of a group."""
        return partition_for(group_id, self._partitions)

    def group(self, group_id: str) -> Group | None:
        """Return a live group, for reading."""
        return self._shard(group_id).groups.get(group_id)

    def groups(self) -> Iterable[Group]:
        """Yield every live group, for reading."""
        for shard in self.shards:
            yield from shard.groups.values()

    def _shard(self, group_id: str) -> Shard:
        return self._shard_of.get(group_id) or self._remember_shard(group_id)

    def _remember_shard(self, group_id: str) -> Shard:
        """Return the shard of a group whose requests have not looked for it for some time."""
        known = self._shard_of
        if len(known) >= _REMEMBERED_SHARDS:
            known.clear()
        shard = known[group_id] = self.shards[partition_for(group_id, self._partitions)]
        return shard

    # -- the log -----------------------------------------------------------------------------------

    def epoch(self, partition: int) -> int:
        """Return the leader epoch of the latest load or unload; -1 before the first."""
        return self.shards[partition].epoch

    def reader(self) -> NewestRecords:
        """Return a reader for the log of a partition."""
        return NewestRecords(GROUP_RECORDS)

    def encode(self, record: Record) -> Pair:
        """Return key and value of a record as bytes."""
        key, value = record
        return encode_key(key), None if value is None else encode_value(value)

    def totals(self) -> dict[str, int]:
        """Return the number of groups."""
        return {"groups": self._all_groups.groups}

    def begin_load(self, partition: int, epoch: int) -> bool:
        """Start to load a partition; return False if there is nothing to load.

        That is so if the epoch is not newer than the present one, or if the partition is loading or
        loaded already [coordinator/epochs].
        """
        return self.shards[partition].begin_load(epoch)

    def replay(self, partition: int, key: bytes | None, value: bytes | None) -> None:
        """Apply one record of a partition that is being loaded, in the order of the log."""
        self.shards[partition].replay(key, value)

    def replay_open(self, partition: int, record: OpenRecord) -> None:
        """Apply one record of a transaction that is open at the end of the log."""
        self.shards[partition].replay_open(record)

    def finish_load(self, partition: int, now_ms: int, skipped_records: int = 0) -> Effects[Any]:
        """Serve a partition whose log has been read to its end.

        Args:
            partition: its number.
            now_ms: the time.
            skipped_records: the number of records that the reader of the log has left out.
        """
        effects: Effects[Any] = Effects()
        self.shards[partition].finish_load(now_ms, effects, skipped_records)
        return self.applied(effects)

    def unload(self, partition: int, epoch: int | None, now_ms: int) -> Effects[Any]:
        """Give a partition up [coordinator/unload].

        Nothing happens if `epoch` is given and not newer than the present one [coordinator/epochs].
        """
        effects: Effects[Any] = Effects()
        shard = self.shards[partition]
        if epoch is not None:
            if epoch <= shard.epoch:
                return effects
            shard.epoch = epoch
        shard.unload(now_ms, effects, ShardState.CLOSED)
        return self.applied(effects)

    def fail(self, partition: int, now_ms: int) -> Effects[Any]:
        """Give up a partition whose log cannot be used [coordinator/failed-partition]."""
        effects: Effects[Any] = Effects()
        self.shards[partition].unload(now_ms, effects, ShardState.FAILED)
        return self.applied(effects)

    def appended(self, partition: int, operations: int, now_ms: int) -> Effects[Any]:
        """Acknowledge the oldest `operations` appends of a partition as durable."""
        effects: Effects[Any] = Effects()
        self.shards[partition].appended(operations, now_ms, effects)
        return self.applied(effects)

    def append_failed(self, partition: int, error: ErrorCode, now_ms: int) -> Effects[Any]:
        """Answer what waits for a lost append, and start to load the partition again.

        [coordinator/failed-append] [coordinator/log-position]
        """
        effects: Effects[Any] = Effects()
        self.shards[partition].append_failed(error, now_ms, effects)
        return self.applied(effects)

    # -- time --------------------------------------------------------------------------------------

    def next_deadline_ms(self) -> int | None:
        """Return when to call `advance` next."""
        return self.purgatory.next_deadline_ms()

    def advance(self, now_ms: int) -> Effects[Any]:
        """Handle timers that are due, in the order of their deadlines.

        Of many some are left, and `next_deadline_ms` is not later than now.
        """
        effects: Effects[Any] = Effects()
        applied = 0
        left = _TIMERS_TOGETHER
        for key in self.purgatory.due(now_ms):
            kind, group_id, _ = key
            if kind is TimerKind.EXPIRY:
                self.shards[int(group_id)].sweep(now_ms, effects)
                left = 0
            else:
                effects.absorb(self._shard(group_id).timer_fired(key, now_ms))
            # At once, so that a timer that this one cancelled or moved does not fire.
            for timer in effects.timers[applied:]:
                self.purgatory.apply(timer)
            applied = len(effects.timers)
            left -= 1
            if left <= 0:
                break
        return effects

    def applied(self, effects: Effects[R]) -> Effects[R]:
        """Apply the timers of effects, and return the effects."""
        for timer in effects.timers:
            self.purgatory.apply(timer)
        return effects
