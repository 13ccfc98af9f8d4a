"""Checks of what happened to a group recently, according to the journal of a Coterie broker.

Each takes an observation and returns its findings; without a journal there are none. Storms and
what single members did are judged by the rules of the pipeline's findings, so that this and its
page have one answer [pipeline/one-finding-a-cause].
"""

from collections.abc import Callable, Iterator
from functools import partial

from coterie.client.health.finding import Finding, error, names_text, warning
from coterie.client.health.observation import Observation
from coterie.client.names import counted, printable, short_member
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.journal_records import (
    MemberFenced,
    MemberJoined,
    MemberRemoved,
    StaticMemberReplaced,
)

_SESSION_EXPIRY = "session expiry"


def judged_as(
    seen: Observation, rule: str, finding: Callable[[str, str, str], Finding], remedy: str
) -> Iterator[Finding]:
    """What a rule of the pipeline's findings has judged."""
    # A static member that has not come back is a finding of its own.
    missing = _missing(seen)
    for each in seen.judged:
        if each.rule == rule and each.subject not in missing:
            yield finding(
                printable(each.subject or ""), f"In {_period(seen)}: {each.evidence}.", remedy
            )


# The group rebalances more often than a deployment explains.
rebalance_storm = partial(
    judged_as,
    rule="rebalance_storm",
    finding=error,
    remedy="`coterie groups history` shows each of them with its cause.",
)
# The broker restarted, and members of the group were replaced or did not come back.
broker_restart = partial(
    judged_as,
    rule="broker_restart",
    finding=warning,
    remedy="Look for the reason in the log of the broker. Members that did not come back have to be"
    " started.",
)
# A client comes and goes again and again.
flapping_member = partial(
    judged_as,
    rule="flapping_member",
    finding=warning,
    remedy="Look for the reason of its restarts in its own log: a crash at a certain record, a"
    " limit of memory, a failing health check.",
)
# Members left or were removed because they did not call poll in time.
max_poll_exceeded = partial(
    judged_as,
    rule="max_poll_exceeded",
    finding=error,
    remedy="The processing of a batch takes too long, and its records are read again by another"
    " member. Reduce max.poll.records, raise max.poll.interval.ms, or process in another"
    " thread.",
)
# Members were removed because they sent no heartbeat.
expired_member = partial(
    judged_as,
    rule="expired_member",
    finding=warning,
    remedy="A process was killed, stopped for long (garbage collection, a suspended machine) or"
    " lost its network. A consumer that is closed leaves the group at once.",
)
# The epoch of a consumer group rises again and again before it is reached.
unsettled_epochs = partial(
    judged_as,
    rule="unsettled_epochs",
    finding=error,
    remedy="`coterie groups history` shows who raised it and why. Find the member that changes its"
    " subscription or comes and goes, and those that take long to follow.",
)


def missing_static_members(seen: Observation) -> Iterator[Finding]:
    """A static member was removed because its session expired, and has not come back."""
    missing = _missing(seen)
    if missing:
        minutes = (seen.now_ms - min(missing.values())) // 60_000
        yield error(
            names_text(missing),
            f"{counted(len(missing), 'static member', 'is', 'are')} missing, the first one"
            f" since {counted(minutes, 'minute')}: the session expired and no process with this"
            " group.instance.id has joined again.",
            "Start the missing processes, or check their group.instance.id if they were renamed.",
        )


def _missing(seen: Observation) -> dict[str, int]:
    """Return the static members that expired and have not come back, and when they expired."""
    missing: dict[str, int] = {}
    for fact in seen.facts or ():
        if isinstance(fact, MemberRemoved) and fact.group_instance_id is not None:
            if fact.cause == _SESSION_EXPIRY:
                missing[fact.group_instance_id] = fact.at_ms
        elif isinstance(fact, MemberJoined | StaticMemberReplaced):
            missing.pop(fact.group_instance_id or "", None)
    return missing


def fenced_members(seen: Observation) -> Iterator[Finding]:
    """Two processes use the same instance id."""
    fenced = [
        fact.group_instance_id
        for fact in seen.facts or ()
        if isinstance(fact, MemberFenced)
        and fact.group_instance_id is not None
        and fact.error_code != ErrorCode.FENCED_MEMBER_EPOCH
    ]
    if fenced:
        yield error(
            names_text(fenced),
            f"{counted(len(fenced), 'request', 'was', 'were')} refused in {_period(seen)},"
            " because another process had joined with the same group.instance.id.",
            "Give every process a group.instance.id of its own; stop the one that was forgotten.",
        )


def unequal_assignors(seen: Observation) -> Iterator[Finding]:
    """The members of the group list different assignors."""
    if seen.has_epochs:
        # The coordinator assigns, and classic members in such a group need nothing in common.
        return
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


def _period(seen: Observation) -> str:
    minutes = round((seen.now_ms - seen.since_ms) / 60_000)
    if minutes == 60:
        return "the last hour"
    return f"the last {minutes // 60} hours" if minutes % 60 == 0 else f"the last {minutes} minutes"
