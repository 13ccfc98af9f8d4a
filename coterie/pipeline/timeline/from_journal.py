"""The history of a group from the journal, with every cause, phase and gap that it recorded.

The facts are applied in order. A logical rebalance begins with the first `rebalance_began` and ends
with a completed generation. If a cooperative member then rejoins because it gave up partitions, the
rebalance continues with the next generation [pipeline/logical-rebalance]. The journal may lack its
first and last facts [pipeline/lost-facts].
"""

from collections.abc import Callable, Iterable
from typing import Any

from coterie.assignors.model import TopicPartition
from coterie.pipeline.timeline.from_facts import (
    exit_evidence,
    generation_of,
    process_of,
    silence_of,
)
from coterie.pipeline.timeline.holdings import (
    SECOND_HALF_WITHIN_MS,
    Holdings,
    fewest_moves,
    is_handover_open,
    moved_partitions,
    partition_moves,
)
from coterie.pipeline.timeline.model import (
    CONSUMER,
    UPGRADE,
    Evidence,
    Generation,
    GroupHistory,
    PartitionMove,
    Rebalance,
    Trigger,
)
from coterie.pipeline.timeline.sessions import Sessions
from coterie.protocol.messages import journal_records as journal
from coterie.protocol.messages.consumer_group_facts import GroupTypeChanged

# The cause of the second half of a cooperative rebalance (KIP-429).
_REJOIN = "rejoin with changed subscription"
_GAVE_UP = "owned partitions"
UNKNOWN_TRIGGER = Trigger("unknown")


class _RunningRebalance:
    """A rebalance that has not ended."""

    def __init__(self, started_ms: int, trigger: Trigger, from_generation: int | None) -> None:
        self.started_ms = started_ms
        self.trigger = trigger
        self.from_generation = from_generation
        self.before: dict[TopicPartition, str] = {}
        self.began_ms = started_ms
        self.join_ms = self.sync_ms = 0
        self.initial_delay_ms: int | None = None
        self.generations = self.skipped = 0
        self.joined: list[str] = []
        self.left: list[str] = []
        self.replaced: list[str] = []
        self.unowned_ms = 0
        self.gaps: dict[TopicPartition, int | None] = {}
        # The members of its first generation, and whether a later one had others.
        self.members: frozenset[str] | None = None
        self.changed = False


class JournalTimeline:
    """The facts of one group, applied in order to its state."""

    def __init__(self, group_id: str, after: GroupHistory | None = None) -> None:
        """Begin with an empty group, or with the group at the end of an earlier history."""
        self.group_id = group_id
        self._holdings = Holdings(group_id)
        self._sessions = Sessions(group_id)
        self._generations: list[Generation] = []
        self._rebalances: list[Rebalance] = []
        self._moves: list[PartitionMove] = []
        self._current: Generation | None = None
        self._open: _RunningRebalance | None = None
        # The last ended rebalance, as long as a second half can follow.
        self._closed: _RunningRebalance | None = None
        # Changes of members before a rebalance begins, which cause it.
        self._joined: list[str] = []
        self._left: list[str] = []
        self._replaced: list[str] = []
        self._keys: dict[str, str] = {}
        # By key the client id and host of the newest process. The facts of a static member that was
        # restarted name its first process.
        self._clients: dict[str, tuple[str, str]] = {}
        if after is not None and after.rebalances:
            self._resume(after)

    def apply(self, fact: Any) -> None:
        """Apply the next fact; facts that do not change the history are ignored."""
        handler = _HANDLERS.get(type(fact))
        if handler is not None:
            handler(self, fact)

    def history(self) -> GroupHistory:
        """Return the history after all facts, including a rebalance that has not ended."""
        rebalances = list(self._rebalances)
        if self._open is not None:
            rebalances.append(self._rebalance(self._open, None))
        return GroupHistory(
            self.group_id,
            self._generations,
            rebalances,
            self._moves,
            self._holdings.intervals + self._holdings.open_intervals(),
            self._sessions.all(),
        )

    # -- facts -------------------------------------------------------------------------------------

    def _member_joined(self, fact: journal.MemberJoined) -> None:
        key = self._key(fact.member_id, fact.group_instance_id)
        self._clients[key] = fact.client_id, fact.client_host
        self._sessions.joined(process_of(fact), fact.at_ms)
        (self._joined if self._open is None else self._open.joined).append(key)

    def _member_removed(self, fact: journal.MemberRemoved) -> None:
        key = self._key(fact.member_id, fact.group_instance_id)
        self._sessions.left(key, fact.at_ms, fact.cause, exit_evidence(fact), silence_of(fact))
        self._holdings.lose_all(key, fact.at_ms)
        (self._left if self._open is None else self._open.left).append(key)

    def _static_replaced(self, fact: journal.StaticMemberReplaced) -> None:
        key = self._key(fact.member_id, fact.group_instance_id)
        self._clients[key] = fact.client_id, fact.client_host
        self._sessions.replaced(process_of(fact), fact.at_ms, rebalances=fact.rebalances)
        if self._open is not None:
            self._open.replaced.append(key)
        elif fact.rebalances:
            self._replaced.append(key)
        elif self._rebalances:
            # Counted with the rebalance before it [pipeline/static-restart].
            last = self._rebalances[-1]
            self._rebalances[-1] = last._replace(replaced=(*last.replaced, key))
            if self._closed is not None:
                self._closed.replaced.append(key)

    def _rebalance_began(self, fact: journal.RebalanceBegan) -> None:
        gave_up = fact.cause == _REJOIN and fact.subscription_change == _GAVE_UP
        if (
            self._open is None
            and self._closed is not None
            and (gave_up or self._is_handing_over(fact))
        ):
            # The second half of a cooperative rebalance, or what came before it: the rebalance
            # continues.
            self._open = self._closed
            self._rebalances.pop()
        elif self._open is None:
            self._open = self._begin(fact)
        else:
            # The generation of the running rebalance was never completed.
            self._open.skipped += 1
        opened = self._open
        self._closed = None
        opened.began_ms = fact.at_ms
        opened.joined += self._joined
        opened.left += self._left
        opened.replaced += self._replaced
        self._joined, self._left, self._replaced = [], [], []

    def _join_completed(self, fact: journal.JoinCompleted) -> None:
        opened = self._open or self._begin_unseen(fact.began_ms)
        opened.join_ms += fact.join_ms

    def _generation_completed(self, fact: journal.GenerationCompleted) -> None:
        opened = self._open or self._begin_unseen(fact.began_ms, fact.join_ms)
        generation = generation_of(fact)
        cooperative = generation.is_cooperative
        if not cooperative:
            self._revoke_eagerly(generation, opened.began_ms)
        # A group without a generation before has nothing that could be interrupted.
        is_first = self._current is None and generation.generation == 1
        gaps = self._holdings.gain(generation, None if is_first else opened.started_ms)
        for partition, gap_ms in gaps.items():
            opened.gaps[partition] = gap_ms
            opened.unowned_ms += gap_ms or 0
        keys = frozenset(member.key for member in generation.members)
        opened.changed = opened.changed or opened.members not in (None, keys)
        opened.members = keys
        opened.sync_ms += fact.sync_ms
        opened.generations += 1
        for member in generation.members:
            self._keys[member.member_id] = member.key
            self._sessions.seen(member, generation.completed_ms)
        self._close(opened, generation)
        self._closed = opened if cooperative else None

    def _group_emptied(self, fact: journal.GroupEmptied) -> None:
        opened = self._open or self._begin_unseen(fact.began_ms, fact.join_ms)
        opened.generations += 1
        self._holdings.lose_everything(fact.at_ms)
        self._close(opened, Generation(fact.generation_id, fact.at_ms, "", None, None, ()))
        self._closed = None

    def _group_removed(self, fact: journal.GroupDeleted | journal.GroupExpired) -> None:
        self._holdings.lose_everything(fact.at_ms)
        # If the group is created again, its generations start from 0.
        self._current = self._open = self._closed = None

    def _type_changed(self, fact: GroupTypeChanged) -> None:
        if fact.group_type != CONSUMER:
            return
        for member in self._current.members if self._current else ():
            self._sessions.left(member.key, fact.at_ms, UPGRADE)
        if self._open is not None:
            cut_off = self._rebalance(self._open, None)._replace(cut_off_by=UPGRADE)
            self._rebalances.append(cut_off)
        self._holdings.lose_everything(fact.at_ms)
        self._current = self._open = self._closed = None

    # -- parts -------------------------------------------------------------------------------------

    def _is_handing_over(self, fact: journal.RebalanceBegan) -> bool:
        """Return whether the last rebalance has left partitions of members without an owner."""
        closed, current = self._closed, self._current
        if closed is None or current is None:
            return False
        soon = fact.at_ms - current.completed_ms <= SECOND_HALF_WITHIN_MS
        return soon and is_handover_open(closed.before, current)

    def _resume(self, after: GroupHistory) -> None:
        last = after.rebalances[-1]
        if after.generations and after.generations[-1].generation == last.to_generation:
            self._current = after.generations[-1]
            self._holdings.gain(self._current, None)
        self._sessions.resume([each for each in after.sessions if each.last_seen_ms is None])

    def _key(self, member_id: str, instance_id: str | None) -> str:
        key = self._keys[member_id] = instance_id or member_id
        return key

    def _begin(self, fact: journal.RebalanceBegan) -> _RunningRebalance:
        key = None
        if fact.member_id is not None:
            key = self._key(fact.member_id, fact.group_instance_id)
            self._sessions.caused(key)
        client_id, client_host = self._clients.get(key or "", (fact.client_id, fact.client_host))
        trigger = Trigger(
            fact.cause,
            key,
            fact.member_id,
            client_id,
            client_host,
            fact.reason,
            fact.subscription_change,
        )
        current = self._current
        number = None if current is None else current.generation
        opened = _RunningRebalance(fact.at_ms, trigger, number)
        opened.before = self._owners_before(fact.at_ms)
        if fact.initial_delay_ms >= 0:
            opened.initial_delay_ms = fact.initial_delay_ms
        return opened

    def _owners_before(self, at_ms: int) -> dict[TopicPartition, str]:
        """Return the owners until now, including those that were removed at this time."""
        owners = {
            TopicPartition(each.topic, each.partition): each.member_key
            for each in self._holdings.intervals
            if each.to_ms == at_ms
        }
        return {**owners, **self._holdings.owners}

    def _begin_unseen(self, began_ms: int, join_ms: int = 0) -> _RunningRebalance:
        """Begin a rebalance whose first fact the journal does not have any more."""
        current = self._current
        number = None if current is None else current.generation
        opened = _RunningRebalance(began_ms, UNKNOWN_TRIGGER, number)
        opened.before = dict(self._holdings.owners)
        opened.join_ms = join_ms
        opened.joined, self._joined = self._joined, []
        opened.left, self._left = self._left, []
        self._sessions.may_have_caused((*opened.joined, *opened.left))
        self._open = opened
        return opened

    def _revoke_eagerly(self, generation: Generation, began_ms: int) -> None:
        """Revoke all partitions of the members that rejoined [pipeline/unowned-time]."""
        rejoined = {
            member.key: began_ms + member.joined_after_ms
            for member in generation.members
            if member.joined_after_ms is not None
        }
        for partition, owner in list(self._holdings.owners.items()):
            if owner in rejoined:
                self._holdings.lose(partition, min(rejoined[owner], generation.completed_ms))

    def _close(self, opened: _RunningRebalance, generation: Generation) -> None:
        if generation.members:
            self._generations.append(generation)
        self._current = generation
        self._open = None
        self._rebalances.append(self._rebalance(opened, generation))
        if generation.members:
            numbers = opened.from_generation, generation.generation
            self._moves += partition_moves(
                self.group_id,
                numbers,
                opened.before,
                generation.owners,
                opened.gaps,
                generation.completed_ms,
            )
            opened.gaps = {}

    def _rebalance(self, opened: _RunningRebalance, generation: Generation | None) -> Rebalance:
        after = {} if generation is None else generation.owners
        members = () if generation is None else generation.members
        return Rebalance(
            group_id=self.group_id,
            protocol=None if generation is None else generation.protocol,
            from_generation=opened.from_generation,
            to_generation=None if generation is None else generation.generation,
            generations=opened.generations,
            skipped_generations=opened.skipped,
            started_ms=opened.started_ms,
            completed_ms=None if generation is None else generation.completed_ms,
            join_ms=_phase_ms(opened.join_ms, generation),
            sync_ms=_phase_ms(opened.sync_ms, generation),
            initial_delay_ms=opened.initial_delay_ms,
            unowned_partition_ms=opened.unowned_ms,
            trigger=opened.trigger,
            joined=tuple(dict.fromkeys(opened.joined)),
            left=tuple(dict.fromkeys(opened.left)),
            replaced=tuple(dict.fromkeys(opened.replaced)),
            members=len(members),
            partitions=len(after),
            moved=len(moved_partitions(opened.before, after)),
            moved_min=_fewest(opened, generation),
            evidence=Evidence.JOURNAL,
        )


def _phase_ms(known_ms: int, generation: Generation | None) -> int | None:
    """Return the length of a phase; None if no fact has its end."""
    return None if generation is None and not known_ms else known_ms


def _fewest(opened: _RunningRebalance, generation: Generation | None) -> int | None:
    """Return the moves that a rebalance needed [pipeline/moved-without-need]."""
    if generation is None or not generation.members:
        return 0
    return None if opened.changed else fewest_moves(opened.before, generation)


_HANDLERS: dict[type, Callable[[JournalTimeline, Any], None]] = {
    journal.MemberJoined: JournalTimeline._member_joined,  # noqa: SLF001 - the table of this class
    journal.MemberRemoved: JournalTimeline._member_removed,  # noqa: SLF001
    journal.StaticMemberReplaced: JournalTimeline._static_replaced,  # noqa: SLF001
    journal.RebalanceBegan: JournalTimeline._rebalance_began,  # noqa: SLF001
    journal.JoinCompleted: JournalTimeline._join_completed,  # noqa: SLF001
    journal.GenerationCompleted: JournalTimeline._generation_completed,  # noqa: SLF001
    journal.GroupEmptied: JournalTimeline._group_emptied,  # noqa: SLF001
    journal.GroupDeleted: JournalTimeline._group_removed,  # noqa: SLF001
    journal.GroupExpired: JournalTimeline._group_removed,  # noqa: SLF001
    GroupTypeChanged: JournalTimeline._type_changed,  # noqa: SLF001
}


def journal_history(
    group_id: str, facts: Iterable[Any], after: GroupHistory | None = None
) -> GroupHistory:
    """Work out the history of a group from its facts.

    Args:
        group_id: the group.
        facts: its facts, in the order of the journal.
        after: the history before the journal; not repeated in the result.
    """
    timeline = JournalTimeline(group_id, after)
    for fact in facts:
        timeline.apply(fact)
    return timeline.history()
