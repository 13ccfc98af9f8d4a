"""What a group that rebalances waits for now: whose request, how long at most, and why.

A description says which members there are; the journal of a Coterie broker says when the rebalance
began and how long its members may take. `CLASSIC` groups wait for the JoinGroup of every member and
then for the SyncGroup of the leader. Members of consumer groups (KIP-848) wait for partitions that
others still have [client/waiting].

Invariant: nothing is guessed. Which members of a classic group have rejoined is known of those that
the journal names; the others are waited for with `is_certain` False, unless only one is left. Where
the broker itself says which response it owes each member (`owed`), all is certain. Without both
`waits_for` of a classic group is None.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from coterie.client.group_description import (
    CONSUMER_GROUP,
    SHARE_GROUP,
    STREAMS_GROUP,
    DescribedMember,
    GroupDescription,
)
from coterie.client.health.epochs import held_partitions, missing_partitions
from coterie.client.health.finding import names_text, partitions_text
from coterie.client.health.observation import short_name
from coterie.protocol.messages.consumer_group_facts import (
    GroupConverged,
    GroupEpochRaised,
    MemberReconciled,
    TargetComputed,
)
from coterie.protocol.messages.journal_records import (
    Fact,
    GenerationCompleted,
    GroupEmptied,
    JoinCompleted,
    JoinPhaseExtended,
    MemberJoined,
    MemberRemoved,
    RebalanceBegan,
    StaticMemberReplaced,
)

PREPARING, COMPLETING = "PreparingRebalance", "CompletingRebalance"
_ASSIGNING, _EMPTY, _STABLE = "Assigning", "Empty", "Stable"
# The state of a streams group whose topology cannot be run.
NOT_READY = "NotReady"
JOIN_GROUP, SYNC_GROUP = "JoinGroup", "SyncGroup"
_HEARTBEATS = {
    CONSUMER_GROUP: "ConsumerGroupHeartbeat",
    SHARE_GROUP: "ShareGroupHeartbeat",
    STREAMS_GROUP: "StreamsGroupHeartbeat",
}
REVOCATION, MORE_MEMBERS = "revocation", "more members"
_UNREVOKED = "UNREVOKED_PARTITIONS"
_REJOIN = "it has to rejoin, with its next call of poll"
_NEW = "a member was given its id and has not joined with it yet"
# The causes of a rebalance that begin with the JoinGroup of the member that is their cause.
_JOINING_CAUSES = (
    "join",
    "rejoin with changed subscription",
    "leader rejoin",
    "static replacement",
)
_CLASSIC_STATES: dict[str, tuple[type[Fact], ...]] = {
    PREPARING: (RebalanceBegan,),
    COMPLETING: (JoinCompleted,),
    _STABLE: (GenerationCompleted,),
    _EMPTY: (GroupEmptied,),
}
_CONSUMER_STATES: dict[str, tuple[type[Fact], ...]] = {
    _ASSIGNING: (GroupEpochRaised,),
    "Reconciling": (TargetComputed,),
    _STABLE: (GroupConverged,),
    _EMPTY: (MemberRemoved,),
}


class Timeouts(NamedTuple):
    """The timeouts of a member, in milliseconds, as its client has set them."""

    session_ms: int
    rebalance_ms: int


class Wait(NamedTuple):
    """Something that a group waits for.

    Attributes:
        member: the short name of the member; None if it is no certain one.
        member_id: its id.
        what: the request that it has to send, `REVOCATION` or `MORE_MEMBERS`.
        until_ms: when it is waited for no more, in epoch milliseconds; None if that is not known.
        why: why it is waited for, as a clause.
        is_certain: whether it is known that this member is waited for.
    """

    member: str | None
    member_id: str | None
    what: str
    until_ms: int | None
    why: str
    is_certain: bool = True


class Phase(NamedTuple):
    """What a group does now.

    Attributes:
        name: its state.
        since_ms: since when, in epoch milliseconds; None if that is not recorded.
        joined: the short names of the members that are known to have joined the next generation, or
            that have reached the target of their group; None if the group is at rest.
        waits_for: what it waits for; None if that is not known, empty if it waits for nothing.
        synced: the short names of the members that have sent their SyncGroup; None if that is not
            known, or not asked.
    """

    name: str
    since_ms: int | None
    joined: list[str] | None
    waits_for: list[Wait] | None
    synced: list[str] | None = None


# By member id the response that the coordinator owes a member: JoinGroup, SyncGroup, or None.
Owed = Mapping[str, str | None]


def phase_of(
    group: GroupDescription, facts: Sequence[Fact] | None, owed: Owed | None = None
) -> Phase:
    """Return what a group does now.

    Args:
        group: its description.
        facts: what the journal says of it, in order; None without a journal.
        owed: the responses that its members wait for; None if nobody says it.
    """
    states = _CLASSIC_STATES if group.group_epoch is None else _CONSUMER_STATES
    # The journal is written some milliseconds after the fact; an older state is not this one.
    fact = _last(facts or (), tuple(kind for kinds in states.values() for kind in kinds))
    if not isinstance(fact, states.get(group.state, ())):
        fact = None
    since_ms = None if fact is None else fact.at_ms
    if group.group_epoch is not None:
        return Phase(group.state, since_ms, *_of_epochs(group, facts or ()))
    if group.state not in (PREPARING, COMPLETING):
        return Phase(group.state, since_ms, None, [])
    if isinstance(fact, RebalanceBegan):
        return Phase(group.state, since_ms, *_of_joining(group, facts or (), fact, owed))
    if isinstance(fact, JoinCompleted):
        synced = None if owed is None else _owed_names(group, owed, SYNC_GROUP)
        return Phase(group.state, since_ms, *_of_syncing(group, facts or (), fact), synced)
    if owed is not None and group.state == PREPARING:
        return Phase(group.state, None, *_joined_now(group, owed, None))
    return Phase(group.state, None, None, None)


def timeouts_of(facts: Iterable[Fact]) -> dict[str, Timeouts]:
    """Return the timeouts of members by their ids, as the journal has them."""
    found: dict[str, Timeouts] = {}
    for fact in facts:
        if isinstance(fact, MemberJoined):
            found[fact.member_id] = Timeouts(fact.session_timeout_ms, fact.rebalance_timeout_ms)
        elif isinstance(fact, StaticMemberReplaced) and fact.old_member_id in found:
            # It has those of its predecessor until the next generation says others.
            found[fact.member_id] = found[fact.old_member_id]
        elif isinstance(fact, GenerationCompleted):
            for each in fact.members:
                found[each.member_id] = Timeouts(each.session_timeout_ms, each.rebalance_timeout_ms)
    return found


def _last(facts: Sequence[Fact], kinds: tuple[type[Fact], ...]) -> Fact | None:
    return next((each for each in reversed(facts) if isinstance(each, kinds)), None)


# -- classic groups --------------------------------------------------------------------------------


def _of_joining(
    group: GroupDescription, facts: Sequence[Fact], began: RebalanceBegan, owed: Owed | None
) -> tuple[list[str] | None, list[Wait]]:
    since = [each for each in facts if each.at_ms >= began.at_ms]
    known = _joined_since(since, began)
    joined = [each for each in group.members if each.member_id in known]
    names = sorted(map(short_name, joined))
    if began.initial_delay_ms >= 0:
        has_more = any(isinstance(each, MemberJoined) for each in facts[facts.index(began) :])
        longest_ms = max(began.timeout_ms, began.initial_delay_ms)
        until_ms = began.at_ms + (longest_ms if has_more else began.initial_delay_ms)
        why = "a group without members waits for others (group.initial.rebalance.delay.ms)"
        return names, [Wait(None, None, MORE_MEMBERS, until_ms, why)]
    until_ms = began.at_ms + began.timeout_ms
    extended = _last(since, (JoinPhaseExtended,))
    if isinstance(extended, JoinPhaseExtended):
        until_ms = extended.at_ms + extended.wait_ms
    if owed is not None:
        return _joined_now(group, owed, until_ms)
    missing = [each for each in group.members if each.member_id not in known]
    if not missing:
        return names, [Wait(None, None, JOIN_GROUP, until_ms, _NEW)]
    why = (
        _REJOIN
        if len(missing) == 1
        else "one of these has not rejoined; the journal says which when all have"
    )
    waits = [
        Wait(short_name(each), each.member_id, JOIN_GROUP, until_ms, why, len(missing) == 1)
        for each in missing
    ]
    return names, waits


def _joined_now(
    group: GroupDescription, owed: Owed, until_ms: int | None
) -> tuple[list[str], list[Wait]]:
    """Return who has joined and who is missing, as the coordinator has it."""
    # Who is not in `owed` has joined after it was read; the next look knows it.
    missing = [each for each in group.members if owed.get(each.member_id, "") is None]
    waits = [
        Wait(short_name(each), each.member_id, JOIN_GROUP, until_ms, _REJOIN) for each in missing
    ]
    if not missing:
        waits = [Wait(None, None, JOIN_GROUP, until_ms, _NEW)]
    return _owed_names(group, owed, JOIN_GROUP), waits


def _owed_names(group: GroupDescription, owed: Owed, response: str) -> list[str]:
    members = (each for each in group.members if owed.get(each.member_id) == response)
    return sorted(map(short_name, members))


def _joined_since(since: Sequence[Fact], began: RebalanceBegan) -> set[str]:
    """Return the ids of the members that are known to have sent their JoinGroup."""
    found = {
        each.member_id
        for each in since
        if isinstance(each, MemberJoined)
        or (isinstance(each, StaticMemberReplaced) and each.rebalances)
    }
    if began.cause in _JOINING_CAUSES and began.member_id is not None:
        found.add(began.member_id)
    return found


def _of_syncing(
    group: GroupDescription, facts: Sequence[Fact], joined: JoinCompleted
) -> tuple[list[str], list[Wait]]:
    timeouts = timeouts_of(facts)
    longest = [
        timeouts[each.member_id].rebalance_ms
        for each in group.members
        if each.member_id in timeouts
    ]
    until_ms = joined.at_ms + max(longest) if longest else None
    leader = next((each for each in group.members if each.member_id == joined.leader), None)
    name = None if leader is None else short_name(leader)
    why = "the leader makes the assignment and sends it"
    return sorted(map(short_name, group.members)), [
        Wait(name, joined.leader, SYNC_GROUP, until_ms, why)
    ]


# -- groups with epochs ---------------------------------------------------------------------------


def _of_epochs(
    group: GroupDescription, facts: Sequence[Fact]
) -> tuple[list[str] | None, list[Wait]]:
    epoch, target_epoch = group.group_epoch or 0, group.assignment_epoch or 0
    if not group.members or group.state == _STABLE:
        return None, []
    if group.state == NOT_READY:
        return None, [_topics_wait(group)]
    heartbeat = _HEARTBEATS[group.type]
    if target_epoch < epoch:
        why = f"the next heartbeat of a member computes the target of epoch {epoch}"
        return [], [Wait(None, None, heartbeat, None, why)]
    held = held_partitions(group)
    waiting = {member_id for each in held.values() for member_id in each.waiting_ids}
    timeouts = timeouts_of(facts)
    reached = [each for each in group.members if (each.member_epoch or 0) >= target_epoch]
    # A member of a streams group that is behind may hold tasks that it is no longer assigned.
    is_known = group.type != STREAMS_GROUP or len(reached) == len(group.members)
    waits = []
    for member in group.members:
        name = short_name(member)
        if member.member_id in held:
            kept = held[member.member_id]
            why = (
                f"it has to give up {partitions_text(kept.partitions)} by epoch {target_epoch},"
                f" for {names_text(kept.waiting)}"
            )
            until_ms = _revoked_by_ms(facts, member, timeouts)
            waits.append(Wait(name, member.member_id, REVOCATION, until_ms, why))
        elif (member.member_epoch or 0) < target_epoch and not member.has_left:
            why = f"it is at epoch {member.member_epoch}, and the target at epoch {target_epoch}"
            waits.append(Wait(name, member.member_id, heartbeat, None, why))
        elif is_known and member.member_id not in waiting and (free := missing_partitions(member)):
            why = f"{partitions_text(free)} can be its own with its next heartbeat"
            waits.append(Wait(name, member.member_id, heartbeat, None, why))
    return sorted(map(short_name, reached)), waits


def _topics_wait(group: GroupDescription) -> Wait:
    """Return the wait of a streams group for topics; why they are wrong only the broker knows."""
    missing = {
        topic
        for each in (() if group.topology is None else group.topology.subtopologies)
        for topic, count in each.read_topics.items()
        if count is None
    }
    why = f"the partitions of {names_text(sorted(missing))} are not known" if missing else ""
    return Wait(None, None, "its topics", None, why)


def _revoked_by_ms(
    facts: Sequence[Fact], member: DescribedMember, timeouts: Mapping[str, Timeouts]
) -> int | None:
    """Return when a member is removed that does not give partitions up."""
    asked = next(
        (
            each
            for each in reversed(facts)
            if isinstance(each, MemberReconciled) and each.member_id == member.member_id
        ),
        None,
    )
    known = timeouts.get(member.member_id)
    if asked is None or known is None or asked.state != _UNREVOKED:
        return None
    return asked.at_ms + known.rebalance_ms
