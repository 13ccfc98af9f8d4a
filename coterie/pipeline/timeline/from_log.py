"""The history of a classic group from `__consumer_offsets` alone, as for every real Kafka.

The classic protocol logs a group when a rebalance has ended. Beginning, phases and causes are not
logged, so the cause is inferred from the change between two generations [pipeline/cause-inference].
Compaction removes all generations of a group but the newest.
"""

from collections.abc import Iterable, Mapping, Sequence

from coterie.assignors.model import TopicPartition
from coterie.pipeline.timeline.holdings import (
    SECOND_HALF_WITHIN_MS,
    Holdings,
    fewest_moves,
    is_handover_open,
    moved_partitions,
    partition_moves,
)
from coterie.pipeline.timeline.model import (
    DOWNGRADE,
    UPGRADE,
    Evidence,
    Generation,
    GroupHistory,
    PartitionMove,
    Rebalance,
    RecordedMember,
    Removed,
    Trigger,
)
from coterie.pipeline.timeline.sessions import Sessions

JOIN = "join"
LEFT = "leave or expiry"
CHANGED_MEMBERS = "members changed"
CHANGED_SUBSCRIPTION = "rejoin with changed subscription"
CHANGED_TOPICS = "topic metadata change"
REJOIN = "leader rejoin"


def log_history(
    group_id: str,
    logged: Iterable[Generation | Removed],
    downgrades: Mapping[int, Sequence[str]] | None = None,
) -> GroupHistory:
    """Work out the history of a group from its logged generations.

    Args:
        group_id: the group.
        logged: the generations in the order of the log, and the ends of the group.
        downgrades: by the time at which it became a classic group, the keys of the members that
            left it then.
    """
    history = _LogTimeline(group_id, downgrades or {})
    for generation in logged:
        history.add(generation)
    return history.result()


class _LogTimeline:
    def __init__(self, group_id: str, downgrades: Mapping[int, Sequence[str]]) -> None:
        self.group_id = group_id
        self.downgrades = downgrades
        self.holdings = Holdings(group_id)
        self.sessions = Sessions(group_id)
        self.generations: list[Generation] = []
        self.rebalances: list[Rebalance] = []
        self.moves: list[PartitionMove] = []
        self.current: Generation | None = None
        # The owners before the last rebalance, for the second half of a cooperative one.
        self.before: dict[TopicPartition, str] = {}
        # Whether it has become a consumer group, from which it can come back with its members.
        self.is_upgraded = False

    def add(self, generation: Generation | Removed) -> None:
        if isinstance(generation, Removed):
            self._removed(generation.completed_ms)
        elif self.current is not None and generation.generation == self.current.generation:
            self._rewritten(self.current, generation)
        elif self.current is None and generation.generation == 0 and not generation.members:
            # A new group is logged before a member has joined [pipeline/skipped-generations].
            return
        else:
            self._completed(self.current, generation)

    def result(self) -> GroupHistory:
        return GroupHistory(
            self.group_id,
            self.generations,
            self.rebalances,
            self.moves,
            self.holdings.intervals + self.holdings.open_intervals(),
            self.sessions.all(),
        )

    def _removed(self, at_ms: int) -> None:
        # A group with members cannot be deleted: it has become a consumer group.
        for member in self.current.members if self.current else ():
            self.sessions.left(member.key, at_ms, UPGRADE)
            self.is_upgraded = True
        self.holdings.lose_everything(at_ms)
        self.current = None

    def _rewritten(self, before: Generation, generation: Generation) -> None:
        """Apply a rewrite: a static member has a new member id [pipeline/static-restart]."""
        known = {member.key: member.member_id for member in before.members}
        for member in generation.members:
            if known.get(member.key, member.member_id) != member.member_id:
                self.sessions.replaced(member, generation.completed_ms, rebalances=False)
                self._restarted(member.key)
        self.current = generation
        if self.generations and self.generations[-1].generation == generation.generation:
            self.generations[-1] = generation

    def _restarted(self, key: str) -> None:
        """Count a restart with the rebalance before it [pipeline/static-restart]."""
        if self.rebalances:
            last = self.rebalances[-1]
            self.rebalances[-1] = last._replace(replaced=(*last.replaced, key))

    def _completed(self, before: Generation | None, generation: Generation) -> None:
        at_ms = generation.completed_ms
        keys_before = {member.key for member in before.members} if before else set()
        keys = {member.key for member in generation.members}
        for key in sorted(keys_before - keys):
            self.sessions.left(key, at_ms, LEFT)
        replaced = [each.key for each in generation.members if self.sessions.seen(each, at_ms)]
        second_half = before is not None and self._continues(before, generation)
        if not second_half:
            self.before = dict(self.holdings.owners)
        # Only for a second half it is known when its partitions were given up: in the first half.
        gaps = self.holdings.gain(generation, None)
        if not generation.members:
            self.holdings.lose_everything(at_ms)
        known = [gap_ms for gap_ms in gaps.values() if gap_ms is not None]
        unowned_ms: int | None
        if second_half:
            unowned_ms = sum(known) + (self.rebalances[-1].unowned_partition_ms or 0)
        else:
            gaps = dict.fromkeys(gaps)
            is_first = before is None and generation.generation == 1
            unowned_ms = 0 if is_first else None
        self.moves += partition_moves(
            self.group_id,
            (before.generation if before else None, generation.generation),
            self.before,
            generation.owners,
            gaps,
            generation.completed_ms,
        )
        rebalance = self._rebalance(before, generation, unowned_ms)
        rebalance = rebalance._replace(replaced=tuple(sorted(replaced)))
        if second_half:
            first = self.rebalances.pop()
            rebalance = rebalance._replace(
                from_generation=first.from_generation,
                generations=first.generations + 1,
                skipped_generations=first.skipped_generations + rebalance.skipped_generations,
                started_ms=None,
                trigger=first.trigger,
                joined=tuple(dict.fromkeys(first.joined + rebalance.joined)),
                left=tuple(dict.fromkeys(first.left + rebalance.left)),
                replaced=first.replaced + rebalance.replaced,
                evidence=first.evidence,
                moved_min=_fewest(first, rebalance),
            )
        else:
            self._count_cause(rebalance)
        self.rebalances.append(rebalance)
        if generation.members:
            self.generations.append(generation)
        self.current = generation

    def _count_cause(self, rebalance: Rebalance) -> None:
        """Count the rebalance for its member [pipeline/member-sessions]."""
        trigger = rebalance.trigger
        if trigger.member_key is not None:
            self.sessions.caused(trigger.member_key)
        elif trigger.cause == CHANGED_MEMBERS and trigger.identity is not None:
            # One client left and came back as another member; its return is not counted again.
            self.sessions.caused(rebalance.left[0])
        elif trigger.cause in (JOIN, LEFT, CHANGED_MEMBERS):
            self.sessions.may_have_caused((*rebalance.joined, *rebalance.left))
        elif trigger.cause in (CHANGED_SUBSCRIPTION, REJOIN):
            members = self.current.members if self.current else ()
            self.sessions.may_have_caused(each.key for each in members)

    def _continues(self, before: Generation, generation: Generation) -> bool:
        """Return whether this generation belongs to the rebalance of the one before it (KIP-429).

        A cooperative rebalance is open until what it took away is assigned again, whatever comes
        between: others may join, and the leader may rejoin [pipeline/logical-rebalance].
        """
        soon = generation.completed_ms - before.completed_ms <= SECOND_HALF_WITHIN_MS
        if not (self.rebalances and soon and before.is_cooperative):
            return False
        if generation.members and is_handover_open(self.before, before):
            return True
        # Connect: the same workers, and nothing but what was taken away.
        if not generation.is_cooperative:
            return False
        same = {each.key for each in before.members} == {each.key for each in generation.members}
        given = set(generation.owners) - set(before.owners)
        taken = set(self.before) - set(before.owners)
        return same and bool(given) and given <= taken

    def _rebalance(
        self, before: Generation | None, generation: Generation, unowned_ms: int | None
    ) -> Rebalance:
        after = generation.owners
        keys_before = {member.key for member in before.members} if before else set()
        keys = {member.key for member in generation.members}
        trigger, evidence = _trigger(before, generation)
        joined, left = sorted(keys - keys_before), sorted(keys_before - keys)
        departed = self.downgrades.get(generation.completed_ms)
        if before is None and generation.members and (self.is_upgraded or departed is not None):
            # Its members come with it.
            trigger, evidence = Trigger(DOWNGRADE), Evidence.INFERRED
            joined, left = [], list(departed or ())
            self.is_upgraded = False
        number = generation.generation
        return Rebalance(
            group_id=self.group_id,
            protocol=generation.protocol,
            from_generation=before.generation if before else None,
            to_generation=number,
            generations=1,
            skipped_generations=max(0, number - before.generation - 1) if before else 0,
            started_ms=None,
            completed_ms=generation.completed_ms,
            join_ms=None,
            sync_ms=None,
            initial_delay_ms=None,
            unowned_partition_ms=unowned_ms,
            trigger=trigger,
            joined=tuple(joined),
            left=tuple(left),
            replaced=(),
            members=len(generation.members),
            partitions=len(after),
            moved=len(moved_partitions(self.before, after)),
            moved_min=fewest_moves(self.before, generation) if generation.members else 0,
            evidence=evidence,
        )


def _fewest(first: Rebalance, later: Rebalance) -> int | None:
    """Return the moves that a rebalance of several generations needed.

    They are unknown if members came or went while it was open: it took place for two reasons.
    """
    changed = later.joined or later.left or first.moved_min is None
    return None if changed else later.moved_min


def _trigger(before: Generation | None, generation: Generation) -> tuple[Trigger, Evidence]:
    """Infer the cause of a rebalance [pipeline/cause-inference]."""
    was = {member.key: member for member in before.members} if before else {}
    now = {member.key: member for member in generation.members}
    joined = [member for key, member in now.items() if key not in was]
    left = [member for key, member in was.items() if key not in now]
    if joined and left:
        return _by(CHANGED_MEMBERS, joined + left), Evidence.INFERRED
    if joined:
        return _by(JOIN, joined), Evidence.LOG
    if left:
        return _by(LEFT, left), Evidence.LOG
    changed = [
        member for key, member in now.items() if _subscription(member) != _subscription(was[key])
    ]
    if changed:
        return _by(CHANGED_SUBSCRIPTION, changed), Evidence.LOG
    if before and set(before.owners) != set(generation.owners):
        return Trigger(CHANGED_TOPICS), Evidence.INFERRED
    return Trigger(REJOIN), Evidence.INFERRED


def _subscription(member: RecordedMember) -> frozenset[str] | None:
    return None if member.topics is None else frozenset(member.topics)


def _by(cause: str, members: list[RecordedMember]) -> Trigger:
    """Return a trigger; a single member, or the only client of the members, must have caused it."""
    member = members[0]
    if len(members) == 1:
        return Trigger(cause, member.key, member.member_id, member.client_id, member.client_host)
    if len({each.identity for each in members}) == 1:
        return Trigger(cause, client_id=member.client_id, client_host=member.client_host)
    return Trigger(cause)
