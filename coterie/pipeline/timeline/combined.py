"""A group's whole history, from everything that is recorded of it.

The journal says more but is kept for a week; the group log reaches back as far as compaction allows
[pipeline/journal-then-log]. A group may have been a classic group and a consumer group in turn
[pipeline/changed-type].
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from coterie.pipeline.timeline.from_epochs import epochs_history
from coterie.pipeline.timeline.from_journal import journal_history
from coterie.pipeline.timeline.from_log import LEFT, log_history
from coterie.pipeline.timeline.model import (
    CLASSIC,
    CONSUMER,
    DOWNGRADE,
    UPGRADE,
    Generation,
    GroupHistory,
    MemberSession,
    Removed,
)
from coterie.pipeline.timeline.shares import is_share_group, share_history
from coterie.protocol.messages import consumer_group_facts as epoch_facts
from coterie.protocol.messages import journal_records as journal

# What is said of groups of one type only; the other facts are of the type of their neighbours.
_OF_CONSUMER_GROUPS = (
    epoch_facts.GroupEpochRaised,
    epoch_facts.TargetComputed,
    epoch_facts.MemberReconciled,
    epoch_facts.GroupConverged,
    epoch_facts.RegexResolved,
)
_OF_CLASSIC_GROUPS = (
    journal.RebalanceBegan,
    journal.JoinPhaseExtended,
    journal.JoinCompleted,
    journal.GenerationCompleted,
    journal.GroupEmptied,
    journal.PendingMemberExpired,
)


def group_history(
    group_id: str,
    facts: Sequence[Any],
    logged: Iterable[Generation | Removed],
    epochs: Sequence[Mapping[str, Any]] = (),
    topic_names: Mapping[str, str] | None = None,
) -> GroupHistory:
    """Work out the history of a group.

    Args:
        group_id: the group.
        facts: the journal's facts about it, in order; may be empty.
        logged: its logged generations, in order; may be empty.
        epochs: its records as a consumer or share group, rows of the view `consumer_epochs`, in
            order.
        topic_names: names by topic id.
    """
    by_type, generations = facts_by_type(facts), list(logged)
    if not (epochs or by_type[CONSUMER]):
        return _classic_history(group_id, by_type[CLASSIC], generations, {})
    history_of = share_history if is_share_group(epochs, facts) else epochs_history
    found = history_of(group_id, epochs, topic_names, by_type[CONSUMER])
    sessions, downgrades = _downgraded(found.sessions, generations)
    classic = _classic_history(group_id, by_type[CLASSIC], generations, downgrades)
    return GroupHistory(
        group_id,
        sorted(classic.generations + found.generations, key=lambda each: each.completed_ms),
        sorted(
            classic.rebalances + found.rebalances,
            # What a downgrade has begun comes after what it has cut off.
            key=lambda each: (
                each.started_ms or each.completed_ms or 0,
                each.trigger.cause == DOWNGRADE,
            ),
        ),
        sorted(classic.moves + found.moves, key=lambda each: each.at_ms),
        classic.ownership + found.ownership,
        _joined_sessions(classic.sessions + sessions),
        found.epochs,
    )


def _downgraded(
    sessions: Iterable[MemberSession], logged: Iterable[Generation | Removed]
) -> tuple[list[MemberSession], dict[int, list[str]]]:
    """Tell the members that a downgrade has taken along from those that left with it.

    The log removes all of them, and lists the former in the generation that it writes at the same
    time.

    Returns:
        The sessions, and the keys of the members that left by the time of the downgrade.
    """
    members = {
        each.completed_ms: {member.member_id for member in each.members}
        for each in logged
        if isinstance(each, Generation) and each.members
    }
    found: list[MemberSession] = []
    downgrades: dict[int, list[str]] = {}
    for session in sessions:
        at_ms = session.last_seen_ms
        if session.exit_kind == DOWNGRADE and at_ms in members:
            departed = downgrades.setdefault(at_ms, [])
            if session.member_id not in members[at_ms]:
                departed.append(session.member_key)
                found.append(session._replace(exit_kind=LEFT))
                continue
        found.append(session)
    return found, downgrades


def _joined_sessions(sessions: Iterable[MemberSession]) -> list[MemberSession]:
    """Return sessions, by their beginnings; those of a member whose group changed its type are one.

    A member keeps its id, and nobody else gets it.
    """
    found: list[MemberSession] = []
    changed: dict[str, int] = {}
    for session in sorted(sessions, key=lambda each: each.first_seen_ms):
        place = changed.pop(session.member_id, len(found))
        if place == len(found):
            found.append(session)
        else:
            first = found[place]
            found[place] = session._replace(
                first_seen_ms=first.first_seen_ms,
                entry_kind=first.entry_kind,
                session_timeout_ms=session.session_timeout_ms or first.session_timeout_ms,
                rebalances_caused=_sum(first.rebalances_caused, session.rebalances_caused),
            )
        if session.exit_kind in (UPGRADE, DOWNGRADE):
            changed[session.member_id] = place
    return found


def _sum(one: int | None, other: int | None) -> int | None:
    """Return how many rebalances were caused; unknown only if none is known."""
    return (one or 0) + (other or 0) or (None if None in (one, other) else 0)


def facts_by_type(facts: Sequence[Any]) -> dict[str, list[Any]]:
    """Return the facts about a group as a classic and as a consumer group.

    A change of the type is in both lists.
    """
    found: dict[str, list[Any]] = {CLASSIC: [], CONSUMER: []}
    # A member joins before anything is said of what follows, and is removed after it.
    following = _last_type(facts)
    before = _types_before(facts)
    for index in range(len(facts) - 1, -1, -1):
        fact = facts[index]
        if isinstance(fact, epoch_facts.GroupTypeChanged):
            for each in found.values():
                each.append(fact)
            following = fact.previous_type
            continue
        following = _type_of(fact) or following
        found[_type_of(fact) or before[index] or following].append(fact)
    return {group_type: each[::-1] for group_type, each in found.items()}


def _type_of(fact: Any) -> str | None:
    """Return the type of the groups of which only this is said."""
    if isinstance(fact, _OF_CONSUMER_GROUPS):
        return CONSUMER
    return CLASSIC if isinstance(fact, _OF_CLASSIC_GROUPS) else None


def _types_before(facts: Sequence[Any]) -> list[str | None]:
    """Return for each fact the type that one before it of the same moment has."""
    found: list[str | None] = []
    known: str | None = None
    # The member whose departure has changed the type was one of the type before.
    changed: str | None = None
    at_ms = -1
    for fact in facts:
        if fact.at_ms != at_ms:
            known, changed, at_ms = None, None, fact.at_ms
        if isinstance(fact, epoch_facts.GroupTypeChanged):
            known, changed = None, fact.previous_type
        found.append(changed or known if isinstance(fact, journal.MemberRemoved) else known)
        known = _type_of(fact) or known
    return found


def _last_type(facts: Sequence[Any]) -> str:
    """Return the type of a group after all facts."""
    for fact in reversed(facts):
        if isinstance(fact, epoch_facts.GroupTypeChanged):
            return fact.group_type
        if known := _type_of(fact):
            return known
    return CLASSIC


def _classic_history(
    group_id: str,
    facts: Sequence[Any],
    logged: Iterable[Generation | Removed],
    downgrades: Mapping[int, Sequence[str]],
) -> GroupHistory:
    if not facts:
        return log_history(group_id, logged, downgrades)
    first_ms = facts[0].at_ms
    earlier = [each for each in logged if each.completed_ms < first_ms]
    if not earlier:
        return journal_history(group_id, facts)
    old = log_history(group_id, earlier, downgrades)
    recent = journal_history(group_id, facts, after=old)
    # The journal's part begins with the members and owners at the end of the log's part, so it
    # contains the intervals and sessions that were open then.
    return GroupHistory(
        group_id,
        old.generations + recent.generations,
        old.rebalances + recent.rebalances,
        old.moves + recent.moves,
        [each for each in old.ownership if each.to_ms is not None] + recent.ownership,
        [each for each in old.sessions if each.last_seen_ms is not None] + recent.sessions,
    )
