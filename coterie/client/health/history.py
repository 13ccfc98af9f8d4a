"""Checks of what happened to a group recently, according to the journal of a Coterie broker.

Each takes an observation and returns its findings; without a journal there are none
[client/checks-of-history].
"""

from collections import Counter
from collections.abc import Iterator

from coterie.client.health.finding import Finding, error, names_text, warning
from coterie.client.health.observation import Observation
from coterie.client.names import counted, short_member
from coterie.protocol.messages.journal_records import (
    MemberFenced,
    MemberJoined,
    MemberRemoved,
    RebalanceBegan,
    StaticMemberReplaced,
)

# Rebalances in an hour that need no explanation: a deployment of five members, one by one.
_USUAL_REBALANCES_PER_HOUR = 10
_MS_PER_HOUR = 3_600_000
# The reason that Java's consumer gives when max.poll.interval.ms is over (KIP-800).
_POLL_TIMEOUT = "poll timeout"
_SESSION_EXPIRY = "session expiry"


def frequent_rebalances(seen: Observation) -> Iterator[Finding]:
    """The group rebalanced more often than a deployment explains."""
    began = [fact for fact in seen.facts or () if isinstance(fact, RebalanceBegan)]
    hours = (seen.now_ms - seen.since_ms) / _MS_PER_HOUR
    if len(began) <= _USUAL_REBALANCES_PER_HOUR * max(hours, 1):
        return
    causes = Counter((fact.cause, _who(fact)) for fact in began).most_common(3)
    parts = [
        f"{count} times {cause}{f' of {who}' if who else ''}" for (cause, who), count in causes
    ]
    yield warning(
        "",
        f"{counted(len(began), 'rebalance')} in {_period(seen)}; most often: {', '.join(parts)}.",
        "`coterie groups history` shows each of them with its cause.",
    )


def poll_timeouts(seen: Observation) -> Iterator[Finding]:
    """Members left because they did not call poll in time."""
    left = [
        short_member(fact.group_instance_id or fact.member_id, fact.member_id, fact.client_id)
        for fact in seen.facts or ()
        if isinstance(fact, MemberRemoved) and _POLL_TIMEOUT in (fact.reason or "")
    ]
    if left:
        yield error(
            names_text(left),
            f"{counted(len(left), 'time')} in {_period(seen)} a member left because it had not"
            " called poll within max.poll.interval.ms: the processing of a batch takes too long."
            " Its records are read again by another member.",
            "Reduce max.poll.records, raise max.poll.interval.ms, or process in another thread.",
        )


def expired_sessions(seen: Observation) -> Iterator[Finding]:
    """Dynamic members were removed because they sent no heartbeat."""
    expired = [
        short_member(fact.member_id, fact.member_id, fact.client_id)
        for fact in seen.facts or ()
        if isinstance(fact, MemberRemoved)
        and fact.cause == _SESSION_EXPIRY
        and fact.group_instance_id is None
    ]
    if expired:
        yield warning(
            names_text(expired),
            f"{counted(len(expired), 'session')} expired in {_period(seen)}: a process was"
            " killed, stopped for long (garbage collection, a suspended machine) or lost its"
            " network.",
            "`coterie groups history` shows when. A consumer that is closed leaves the group at"
            " once.",
        )


def missing_static_members(seen: Observation) -> Iterator[Finding]:
    """A static member was removed because its session expired, and has not come back."""
    missing: dict[str, int] = {}
    for fact in seen.facts or ():
        if isinstance(fact, MemberRemoved) and fact.group_instance_id is not None:
            if fact.cause == _SESSION_EXPIRY:
                missing[fact.group_instance_id] = fact.at_ms
        elif isinstance(fact, MemberJoined | StaticMemberReplaced):
            missing.pop(fact.group_instance_id or "", None)
    if missing:
        minutes = (seen.now_ms - min(missing.values())) // 60_000
        yield error(
            names_text(missing),
            f"{counted(len(missing), 'static member', 'is', 'are')} missing, the first one"
            f" since {counted(minutes, 'minute')}: the session expired and no process with this"
            " group.instance.id has joined again.",
            "Start the missing processes, or check their group.instance.id if they were renamed.",
        )


def fenced_members(seen: Observation) -> Iterator[Finding]:
    """Two processes use the same instance id."""
    fenced = [fact.group_instance_id for fact in seen.facts or () if isinstance(fact, MemberFenced)]
    if fenced:
        yield error(
            names_text(fenced),
            f"{counted(len(fenced), 'request', 'was', 'were')} refused in {_period(seen)},"
            " because another process had joined with the same group.instance.id.",
            "Give every process a group.instance.id of its own; stop the one that was forgotten.",
        )


def unequal_assignors(seen: Observation) -> Iterator[Finding]:
    """The members of the group list different assignors."""
    members = {member.member_id: member for member in seen.group.members}
    lists: dict[tuple[str, ...], list[str]] = {}
    for fact in seen.facts or ():
        if isinstance(fact, MemberJoined) and fact.member_id in members:
            name = short_member(
                fact.group_instance_id or fact.member_id, fact.member_id, fact.client_id
            )
            lists.setdefault(tuple(fact.protocols), []).append(name)
    if len(lists) > 1:
        parts = [f"{names_text(each)} ({names_text(lists[each])})" for each in sorted(lists)]
        yield warning(
            "",
            f"The members list different assignors: {'; '.join(parts)}. The group uses one that"
            f" all of them list, now {seen.group.protocol or 'none'}; a member without a common"
            " one is refused.",
            "Finish the deployment that changes partition.assignment.strategy, or make it equal.",
        )


def _who(fact: RebalanceBegan) -> str:
    """Return the identity of the member that caused a rebalance; "" without one."""
    return fact.group_instance_id or fact.client_id or ""


def _period(seen: Observation) -> str:
    minutes = round((seen.now_ms - seen.since_ms) / 60_000)
    if minutes == 60:
        return "the last hour"
    return f"the last {minutes // 60} hours" if minutes % 60 == 0 else f"the last {minutes} minutes"
