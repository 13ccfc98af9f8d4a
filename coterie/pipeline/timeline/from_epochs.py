"""The history of a KIP-848 group from its records in `__consumer_offsets`.

The log has every step of a reconciliation. A member that joins, leaves or changes its subscription
(record types 5 and 16) makes the coordinator bump the group epoch (3), which begins a rebalance.
The coordinator computes a target assignment (6, 7), and each member follows it at its own pace (8)
[pipeline/epoch-rebalance]. Topics are named by ids [pipeline/topic-ids].
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from coterie.assignors import TopicPartition
from coterie.pipeline.timeline.holdings import Holdings, moved_partitions, partition_moves
from coterie.pipeline.timeline.model import (
    Evidence,
    GroupHistory,
    PartitionMove,
    Rebalance,
    RecordedMember,
    Trigger,
)
from coterie.pipeline.timeline.sessions import Sessions

Row = Mapping[str, Any]

JOIN = "join"
LEAVE = "leave or expiry"
CHANGED_SUBSCRIPTION = "rejoin with changed subscription"
CHANGED_TOPICS = "topic metadata change"
_STABLE = "Stable"


class _Current(NamedTuple):
    """The progress of a member."""

    member_epoch: int
    is_stable: bool


class _RunningRebalance:
    def __init__(self, started_ms: int, trigger: Trigger, from_epoch: int | None) -> None:
        self.started_ms = started_ms
        self.trigger = trigger
        self.from_epoch = from_epoch
        self.before: dict[TopicPartition, str] = {}
        self.joined: list[str] = []
        self.left: list[str] = []
        self.skipped = 0
        self.unowned_ms = 0
        self.gaps: dict[TopicPartition, int | None] = {}


def epochs_history(
    group_id: str, rows: Iterable[Row], topic_names: Mapping[str, str] | None = None
) -> GroupHistory:
    """Work out the history of a group from its records.

    Args:
        group_id: the group.
        rows: rows of the view `consumer_epochs`, in the order of the log.
        topic_names: the known names by topic id; other topics are named by their ids.
    """
    timeline = _EpochTimeline(group_id, topic_names or {})
    for row in rows:
        timeline.add(row)
    return timeline.result()


class _EpochTimeline:
    def __init__(self, group_id: str, topic_names: Mapping[str, str]) -> None:
        self.group_id = group_id
        self.topic_names = topic_names
        self.holdings = Holdings(group_id)
        self.sessions = Sessions(group_id)
        self.members: dict[str, RecordedMember] = {}
        self.current: dict[str, _Current] = {}
        self.epoch: int | None = None
        self.open: _RunningRebalance | None = None
        # The changes of members since the last bump. The first of them causes the next one.
        self.changes: list[Trigger] = []
        self.joined: list[str] = []
        self.left: list[str] = []
        # The owners before members left for which no epoch has been bumped yet.
        self.before_leaving: dict[TopicPartition, str] = {}
        self.rebalances: list[Rebalance] = []
        self.moves: list[PartitionMove] = []

    def add(self, row: Row) -> None:
        at_ms = _ms(row["record_ts"])
        kind, is_removed = row["kind"], row["is_tombstone"]
        if kind == "member":
            if is_removed:
                self._member_removed(row, at_ms)
            else:
                self._member(row, at_ms)
        elif kind == "group":
            if is_removed:
                self._group_removed(at_ms)
            else:
                self._bumped(row["group_epoch"], at_ms)
        elif kind == "current_member" and not is_removed:
            self._progress(row, at_ms)

    def result(self) -> GroupHistory:
        rebalances = list(self.rebalances)
        if self.open is not None:
            rebalances.append(self._rebalance(self.open, None))
        return GroupHistory(
            self.group_id,
            [],
            rebalances,
            self.moves,
            self.holdings.intervals + self.holdings.open_intervals(),
            self.sessions.all(),
        )

    def _member(self, row: Row, at_ms: int) -> None:
        member = RecordedMember(
            row["member_id"],
            row["instance_id"],
            row["client_id"] or "",
            row["client_host"] or "",
            tuple(row["topics"] or ()),
            (),
            (),
            rebalance_timeout_ms=row.get("rebalance_timeout_ms"),
        )
        known = self.members.get(member.member_id)
        self.members[member.member_id] = member
        if known is None and member.key in self.left:
            self._restarted(member, at_ms)
        elif known is None:
            self.sessions.joined(member, at_ms)
            self.joined.append(member.key)
            self.changes.append(_trigger(JOIN, member))
        elif known.topics != member.topics:
            self.changes.append(_trigger(CHANGED_SUBSCRIPTION, member))

    def _restarted(self, member: RecordedMember, at_ms: int) -> None:
        """Undo the removal of a static member that is back at once [pipeline/static-restart]."""
        self.left.remove(member.key)
        self.changes = [each for each in self.changes if each.member_key != member.key]
        self.sessions.returned(member, at_ms)
        if self.rebalances:
            last = self.rebalances[-1]
            self.rebalances[-1] = last._replace(replaced=(*last.replaced, member.key))

    def _member_removed(self, row: Row, at_ms: int) -> None:
        member = self.members.pop(row["member_id"], None)
        self.current.pop(row["member_id"], None)
        if member is None:
            return
        self.sessions.left(member.key, at_ms, LEAVE)
        self.changes.append(_trigger(LEAVE, member))
        self.left.append(member.key)
        if self.open is None:
            self.before_leaving.update(self.holdings.owners)
        self.holdings.lose_all(member.key, at_ms)

    def _group_removed(self, at_ms: int) -> None:
        self.holdings.lose_everything(at_ms)
        self.epoch = self.open = None
        self.members, self.current = {}, {}

    def _bumped(self, epoch: int, at_ms: int) -> None:
        trigger = self.changes[0] if self.changes else Trigger(CHANGED_TOPICS)
        if self.open is None:
            self.open = _RunningRebalance(at_ms, trigger, self.epoch)
            self.open.before = {**self.before_leaving, **self.holdings.owners}
            if trigger.member_key is not None:
                self.sessions.caused(trigger.member_key)
        else:
            self.open.skipped += 1
        self.open.joined += self.joined
        self.open.left += self.left
        self.changes, self.joined, self.left = [], [], []
        self.before_leaving = {}
        self.epoch = epoch
        if not self.members:
            # The group is empty, so no member has to follow the epoch.
            self.holdings.forget_lost()
            self._close(at_ms)

    def _progress(self, row: Row, at_ms: int) -> None:
        member = self.members.get(row["member_id"])
        if member is None:
            return
        epoch = row["member_epoch"]
        given = {
            TopicPartition(
                self.topic_names.get(each["topic_id"], each["topic_id"]), each["partition"]
            )
            for each in row["assigned"] or ()
        }
        for partition, owner in list(self.holdings.owners.items()):
            if owner == member.key and partition not in given:
                self.holdings.lose(partition, at_ms)
        for partition in sorted(given):
            if self.holdings.owners.get(partition) != member.key:
                # In the group's first epochs nobody had to give up anything.
                since = None
                if self.open is not None and self.open.from_epoch is not None:
                    since = self.open.started_ms
                gap_ms = self.holdings.take(partition, member.key, epoch, at_ms, since)
                if self.open is not None:
                    self.open.gaps[partition] = gap_ms
                    self.open.unowned_ms += gap_ms or 0
        stable = row["state"] == _STABLE and not row["pending_revocation"]
        self.current[member.member_id] = _Current(epoch, stable)
        if self.open is not None and self._converged():
            self._close(at_ms)

    def _converged(self) -> bool:
        return all(
            member_id in self.current
            and self.current[member_id].is_stable
            and self.current[member_id].member_epoch == self.epoch
            for member_id in self.members
        )

    def _close(self, at_ms: int) -> None:
        opened, self.open = self.open, None
        assert opened is not None, "a rebalance is closed once"
        self.rebalances.append(self._rebalance(opened, at_ms))
        self.moves += partition_moves(
            self.group_id,
            (opened.from_epoch, self.epoch),
            opened.before,
            self.holdings.owners,
            opened.gaps,
            at_ms,
        )

    def _rebalance(self, opened: _RunningRebalance, at_ms: int | None) -> Rebalance:
        after = self.holdings.owners
        return Rebalance(
            group_id=self.group_id,
            protocol=None,
            from_generation=opened.from_epoch,
            to_generation=None if at_ms is None else self.epoch,
            generations=1,
            skipped_generations=opened.skipped,
            started_ms=opened.started_ms,
            completed_ms=at_ms,
            join_ms=None,
            sync_ms=None,
            initial_delay_ms=None,
            unowned_partition_ms=opened.unowned_ms,
            trigger=opened.trigger,
            joined=tuple(dict.fromkeys(opened.joined)),
            left=tuple(dict.fromkeys(opened.left)),
            replaced=(),
            members=len(self.members),
            partitions=len(after),
            moved=len(moved_partitions(opened.before, after)),
            # The numbers of partitions of the topics are not known well enough to compute it.
            moved_min=None,
            evidence=Evidence.LOG,
        )


def _trigger(cause: str, member: RecordedMember) -> Trigger:
    return Trigger(cause, member.key, member.member_id, member.client_id, member.client_host)


def _ms(at: Any) -> int:
    """Return a time, epoch milliseconds or a datetime, as epoch milliseconds."""
    return round(at.timestamp() * 1000) if isinstance(at, datetime) else int(at)
