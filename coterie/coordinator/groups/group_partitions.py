"""The partitions of `__consumer_offsets` that this broker coordinates: their logs and their time.

This is the coordinator as its runtime sees it (`Machine`); `service.py` adds what clients request.
"""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from coterie.coordinator.groups.config import GroupConfig
from coterie.coordinator.groups.group_like import GroupLike
from coterie.coordinator.groups.group_type import GroupTypes
from coterie.coordinator.groups.held_partition import LATE_TIMER
from coterie.coordinator.groups.partition_state import GroupCount
from coterie.coordinator.groups.shard import SWEEP_TIMER, GroupShard
from coterie.coordinator.kernel.append import Pair, Record
from coterie.coordinator.kernel.effects import Effects
from coterie.coordinator.kernel.loading import NewestRecords
from coterie.coordinator.kernel.partitions import Partitions
from coterie.coordinator.kernel.purgatory import Purgatory
from coterie.coordinator.kernel.shard_state import ACTIVE
from coterie.coordinator.topic_image import TopicsImage
from coterie.protocol.java_hash import partition_for
from coterie.protocol.messages.log_records import GROUP_RECORDS, encode_key, encode_value

# The effects of one verb.
E = TypeVar("E", bound=Effects[Any])

# Of how many group ids the partition is kept, which takes longer to compute than to look up.
_REMEMBERED_SHARDS = 16_384
# How many timers are handled in one call: a few milliseconds. A sweep is as much as all of them,
# and so is a part of long work.
_TIMERS_TOGETHER = 100


class GroupPartitions(Partitions[GroupShard]):
    """All partitions of `__consumer_offsets` that this broker coordinates.

    Attributes:
        config: the settings.
        topics: the topics of the cluster.
        types: the types of groups that are served.
        purgatory: the timers of all partitions.
    """

    def __init__(
        self,
        config: GroupConfig,
        types: GroupTypes,
        new_uuid: Callable[[], str],
        start_ms: int = 0,
        topics: TopicsImage | None = None,
    ) -> None:
        """Start without a loaded partition.

        Args:
            config: the settings.
            types: the types of groups that are served.
            new_uuid: returns a new random UUID as text, for member ids.
            start_ms: the time.
            topics: the topics of the cluster; by default there are none.
        """
        super().__init__()
        self.types = types
        self.topics = TopicsImage({}, {}) if topics is None else topics
        self.config = config
        self.purgatory = Purgatory(start_ms)
        # Hashing spreads ids evenly, so ids that were not chosen on purpose stay well below twice
        # the even share of a partition [coordinator/group-limit].
        partitions = config.offsets_topic_num_partitions
        max_groups = min(config.max_groups, 2 * config.max_groups // partitions + 1)
        self._all_groups = all_groups = GroupCount(config.max_groups)
        self.shards = [
            GroupShard(
                partition,
                config,
                types,
                new_uuid,
                max_groups,
                all_groups,
                self.topics,
            )
            for partition in range(partitions)
        ]
        self._partitions = partitions
        # Where the groups of the latest requests are.
        self._shard_of: dict[str, GroupShard] = {}

    # -- groups ------------------------------------------------------------------------------------

    def partition_for(self, group_id: str) -> int:
        """Return the `__consumer_offsets` partition of a group."""
        return partition_for(group_id, self._partitions)

    def group(self, group_id: str) -> GroupLike | None:
        """Return a live group, for reading."""
        return self._shard(group_id).groups.get(group_id)

    def groups(self) -> Iterable[GroupLike]:
        """Yield every live group, for reading."""
        for shard in self.shards:
            yield from shard.groups.values()

    def operate(
        self,
        group_id: str,
        verb: Callable[[GroupShard, int], Effects[Any]],
        now_ms: int,
    ) -> Effects[Any]:
        """Let a verb work on a group for which no request waits and no timer has fired.

        That is the place of work that was done elsewhere and comes back, such as an assignment that
        took long to compute. Meanwhile the group may have been removed, or replaced by another one
        of its id, and the partition may have been given up: then the verb is not called.
        """
        shard = self._shard(group_id)
        if shard.state is not ACTIVE:
            return Effects()
        return self.applied(shard.settle(verb(shard, now_ms), now_ms))

    def _shard(self, group_id: str) -> GroupShard:
        return self._shard_of.get(group_id) or self._remember_shard(group_id)

    def _remember_shard(self, group_id: str) -> GroupShard:
        """Return the shard of a group whose requests have not looked for it for some time."""
        known = self._shard_of
        if len(known) >= _REMEMBERED_SHARDS:
            known.clear()
        shard = known[group_id] = self.shards[partition_for(group_id, self._partitions)]
        assert len(known) <= _REMEMBERED_SHARDS, "the number of ids that are kept is limited"
        return shard

    # -- the log -----------------------------------------------------------------------------------

    def reader(self) -> NewestRecords:
        """Return a reader for the log of a partition."""
        return NewestRecords(GROUP_RECORDS)

    def encode(self, records: list[Record]) -> list[Pair]:
        """Return keys and values of records as bytes."""
        return [
            (encode_key(key), None if value is None else encode_value(value))
            for key, value in records
        ]

    def totals(self) -> dict[str, int]:
        """Return the number of groups."""
        return {"groups": self._all_groups.groups}

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
        left, long_timers = _TIMERS_TOGETHER, self.types.long_timers
        for key in self.purgatory.due(now_ms):
            kind, group_id, _ = key
            if kind == SWEEP_TIMER:
                self.shards[int(group_id)].sweep(now_ms, effects)
                left = 0
            elif kind == LATE_TIMER:
                self.shards[int(group_id)].answer_late(now_ms, effects)
            else:
                effects.absorb(self._shard(group_id).timer_fired(key, now_ms))
                if kind in long_timers:
                    left = 0
            # At once, so that a timer that this one cancelled or moved does not fire.
            for timer in effects.timers[applied:]:
                self.purgatory.apply(timer)
            applied = len(effects.timers)
            left -= 1
            if left <= 0:
                break
        assert effects.operation is None, "an operation is settled before its effects leave"
        return effects

    def applied(self, effects: E) -> E:
        """Apply the timers of effects, and return the effects."""
        assert effects.operation is None, "an operation is settled before its effects leave"
        timers = effects.timers
        # Most effects have none, and a loop over nothing takes as long as a call.
        if timers:
            for timer in timers:
                self.purgatory.apply(timer)
        return effects
