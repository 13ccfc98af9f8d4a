"""The members and epochs of a share group (KIP-932) over time.

Epochs rise and targets are computed as in a KIP-848 group. But a member takes its target at once,
nobody gives anything up for it, and several members can have a partition: it is without a member
only while none has it [pipeline/share-groups].
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from coterie.assignors.model import TopicPartition
from coterie.pipeline.timeline.epoch_state import RunningRebalance, Step
from coterie.pipeline.timeline.epochs import TOPICS, EpochTimeline
from coterie.pipeline.timeline.from_epochs import history_from
from coterie.pipeline.timeline.holdings import Holdings
from coterie.pipeline.timeline.model import (
    SHARE,
    Generation,
    GroupHistory,
    Ownership,
    Rebalance,
    Trigger,
)
from coterie.protocol.messages.journal_records import MemberJoined

# The word of the journal.
INITIALIZED = "partitions initialized"
# The record types of share groups [group-log/record-types].
_RECORD_TYPES = range(10, 16)


def is_of_share_group(row: Mapping[str, Any]) -> bool:
    """Return whether a row of `consumer_epochs` is one of a share group."""
    return row["record_type"] in _RECORD_TYPES


def is_share_group(rows: Iterable[Mapping[str, Any]], facts: Iterable[Any]) -> bool:
    """Return whether this is recorded of a share group."""
    return any(map(is_of_share_group, rows)) or any(
        isinstance(fact, MemberJoined) and fact.protocols == [SHARE] for fact in facts
    )


def share_history(
    group_id: str,
    rows: Iterable[Mapping[str, Any]],
    topic_names: Mapping[str, str] | None = None,
    facts: Sequence[Any] = (),
) -> GroupHistory:
    """Work out the history of a share group; see `epochs_history`."""
    return history_from(ShareTimeline(group_id), rows, topic_names, facts)


class _Shared(Holdings):
    """The members that have each partition; `owners` stays empty, because there is no owner."""

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self._group = group_id
        # By partition and member since when, and in which epoch.
        self._held: dict[TopicPartition, dict[str, tuple[int, int]]] = {}
        self._without_ms: dict[TopicPartition, int] = {}

    def partitions(self) -> int:
        """Return how many partitions a member has."""
        return sum(bool(members) for members in self._held.values())

    def of(self, member_key: str) -> set[TopicPartition]:
        """Return what a member has."""
        return {each for each, members in self._held.items() if member_key in members}

    def has(self, member_key: str, now: Iterable[TopicPartition], epoch: int, at_ms: int) -> int:
        """Note what a member has now; return how long partitions had no member, summed."""
        wanted = set(now)
        for partition in sorted(self.of(member_key) - wanted):
            self._end(partition, member_key, at_ms)
        without_ms = 0
        for partition in sorted(wanted - self.of(member_key)):
            without_ms += max(0, at_ms - self._without_ms.pop(partition, at_ms))
            self._held.setdefault(partition, {})[member_key] = at_ms, epoch
        return without_ms

    def lose_all(self, member_key: str, at_ms: int) -> None:
        for partition in sorted(self.of(member_key)):
            self._end(partition, member_key, at_ms)

    def lose_everything(self, at_ms: int) -> None:
        for partition, members in self._held.items():
            for member_key in list(members):
                self._end(partition, member_key, at_ms)
        self.forget_lost()

    def forget_lost(self) -> None:
        self._without_ms.clear()

    def open_intervals(self) -> list[Ownership]:
        return [
            Ownership(self._group, *partition, member_key, epoch, from_ms, None)
            for partition, members in self._held.items()
            for member_key, (from_ms, epoch) in members.items()
        ]

    def _end(self, partition: TopicPartition, member_key: str, at_ms: int) -> None:
        from_ms, epoch = self._held[partition].pop(member_key)
        at_ms = max(at_ms, from_ms)
        self.intervals.append(Ownership(self._group, *partition, member_key, epoch, from_ms, at_ms))
        if not self._held[partition]:
            self._without_ms[partition] = at_ms


class ShareTimeline(EpochTimeline):
    """The state of one share group."""

    def __init__(self, group_id: str) -> None:
        """Begin without members."""
        super().__init__(group_id)
        self.group_type = SHARE
        self._holdings = self._shared = _Shared(group_id)
        self._has_initialized = False

    def initialized(self, partitions: int) -> None:
        """Note that this many partitions have a share state now."""
        self._has_initialized = self._has_initialized or partitions > 0

    def targeted(self, epoch: int, at_ms: int) -> None:
        """A target was computed; nothing is handed over for it."""
        changed = sum(member_id in self._members for member_id in self._new_targets)
        for member_id, now in self._new_targets.items():
            if member_id in self._members:
                self._targets[member_id] = now
            else:
                self._targets.pop(member_id, None)
        self._new_targets, self._target_epoch = {}, epoch
        self.computed(epoch, at_ms, self._requested_assignor(), changed, 0)

    def bumped(
        self,
        epoch: int,
        at_ms: int,
        recorded: Trigger | None,
        members: int | None = None,
        otherwise: str = TOPICS,
    ) -> None:
        """The epoch rose; see `EpochTimeline`."""
        super().bumped(epoch, at_ms, recorded, members, otherwise)
        self._has_initialized = False

    def stepped(self, member_id: str, step: Step) -> None:
        """A member has taken its target."""
        subscriber = self._members.get(member_id)
        if subscriber is None:
            return
        key, opened = subscriber.member.key, self._open
        without_ms = self._shared.has(key, step.assigned, step.member_epoch, step.at_ms)
        if opened is not None:
            opened.noticed.setdefault(key, step.at_ms - opened.bump.at_ms)
            opened.unowned_ms += without_ms
        self._steps[member_id] = step
        self._settle(member_id, step)

    def _inferred_trigger(self, at_ms: int, otherwise: str) -> Trigger:
        cause = INITIALIZED if self._has_initialized else otherwise
        return super()._inferred_trigger(at_ms, cause)

    def _generation(self, opened: RunningRebalance, at_ms: int) -> Generation:
        found = super()._generation(opened, at_ms)
        members = tuple(
            each._replace(assigned=tuple(sorted(self._shared.of(each.key))))
            for each in found.members
        )
        return found._replace(members=members)

    def _rebalance(
        self, opened: RunningRebalance, at_ms: int | None, generation: Generation | None
    ) -> Rebalance:
        found = super()._rebalance(opened, at_ms, generation)
        return found._replace(partitions=self._shared.partitions(), moved=0, moved_min=None)
