"""Members that died without a word, that polled too late, and that restarted without a rebalance.

These are the most ordinary things that happen to a group, and usually the cause of the others
[pipeline/expired-member].
"""

from collections.abc import Iterator, Sequence

from coterie.pipeline.findings import bursts
from coterie.pipeline.findings.changes import Changes, Session
from coterie.pipeline.findings.finding import (
    INFO,
    WARNING,
    Finding,
    Rule,
    clock,
    cost_of,
    counted,
    duration,
    episodes,
    listed,
)
from coterie.pipeline.timeline.departures import LEAVE, OPEN, SESSION_EXPIRY
from coterie.pipeline.timeline.sessions import RESTARTED_FREELY

# Members that expire within this time of each other usually died of one cause. The sessions of
# processes that were killed at once end within a heartbeat interval, three seconds by default.
AT_ONCE_MS = 10_000
# Restarts of static members within this time of each other are one finding: a deployment.
RESTARTS_APART_MS = 10 * 60_000
# A member leaves as soon as max.poll.interval.ms is over. It had committed up to five seconds, the
# default of auto.commit.interval.ms, before its last poll, and the generation without it is logged
# when the others have rejoined.
MAX_POLL_SLACK_MS = 30_000
# What Java's consumer and kafka-python give as reason (KIP-800).
_POLL_TIMEOUT = "poll timeout"
# Of a classic member that did not rejoin, and of a member of a KIP-848 group that did not give up
# partitions in time: both take as long as max.poll.interval.ms.
_TIMEOUTS = ("rebalance timeout", "revocation timeout")

EXPIRED = Rule(
    "expired_member",
    WARNING,
    "a member sent no heartbeat any more until its session expired: it was killed, stopped, or lost"
    " its network",
)
MAX_POLL = Rule(
    "max_poll_exceeded",
    WARNING,
    "a member did not poll within max.poll.interval.ms, so it left or was removed",
)
STATIC = Rule("static_restart", INFO, "a static member restarted, without a rebalance")


def expired_members(group: Changes) -> Iterator[Finding]:
    """Find members that died without a word, and for how long their partitions were not read."""
    flapping = list(bursts.flapping_members(group))
    expired = sorted(
        (
            each
            for each in group.sessions
            if each.exit_kind == SESSION_EXPIRY and not _flaps(each, flapping)
        ),
        key=lambda each: each.to_ms or 0,
    )
    # Those that came back are another thing than those that did not.
    for some in (
        [each for each in expired if _returned(group, each) is None],
        [each for each in expired if _returned(group, each) is not None],
    ):
        for together in episodes(some, lambda each: each.to_ms or 0, AT_ONCE_MS):
            yield _expired(group, together)


def _flaps(session: Session, flapping: Sequence[Finding]) -> bool:
    """Return whether a session is one of those of a flapping member."""
    return any(
        each.subject == session.identity and each.from_ms <= (session.to_ms or 0) <= each.to_ms
        for each in flapping
    )


def _expired(group: Changes, sessions: Sequence[Session]) -> Finding:
    removed_ms = max(each.to_ms or 0 for each in sessions)
    known = [each for each in sessions if each.silent_ms is not None]
    begins = [(each.to_ms or 0) - (each.silent_ms or 0) for each in known]
    from_ms = min(begins, default=min(each.to_ms or 0 for each in sessions))
    keys = {each.member_key: each for each in sessions}
    unread: list[int] = []
    is_open = False
    for owned in group.owned:
        session = keys.get(owned.member_key)
        if session is None or owned.to_ms is None or session.to_ms != owned.to_ms:
            continue
        next_ms = _next_owner_ms(group, owned.topic, owned.partition, owned.to_ms)
        is_open = is_open or next_ms is None
        until_ms = group.now_ms if next_ms is None else next_ms
        unread.append(max(0, until_ms - owned.to_ms) + (session.silent_ms or 0))
    names = list(dict.fromkeys(each.identity for each in sessions))
    session = sessions[0]
    if len(sessions) == 1:
        what = "sent no heartbeat"
        if session.silent_ms is not None:
            what += f" for {duration(session.silent_ms)}"
        what += " and was removed without having left"
    else:
        what = (
            f"{counted(len(sessions), 'member')} ({listed(names)}) sent no heartbeats and were"
            " removed without having left"
        )
    if unread:
        at_least = "at least " if len(known) < len(sessions) or is_open else ""
        whose = "its" if len(sessions) == 1 else "their"
        were = "was" if len(unread) == 1 else "were"
        what += (
            f"; {whose} {counted(len(unread), group.unit)} {were} not read for {at_least}"
            f"{duration(max(unread))}"
        )
        if is_open:
            what += ", and still have no owner" if len(unread) > 1 else ", and still has no owner"
    back = [at for at in (_returned(group, each) for each in sessions) if at is not None]
    if back:
        what += f"; joined again at {clock(min(back), group.now_ms)}"
    cost = cost_of(sum(unread) / 1000, group.mean_lag(from_ms, removed_ms))
    return Finding(
        EXPIRED.name,
        group.group_id,
        from_ms,
        removed_ms,
        removed_ms,
        names[0] if len(names) == 1 else None,
        max(unread, default=0) / 1000,
        what,
        cost,
    )


def _next_owner_ms(group: Changes, topic: str, partition: int, after_ms: int) -> int | None:
    """Return when a partition had an owner again; None if it has none."""
    begins = [
        each.from_ms
        for each in group.owned
        if each.topic == topic and each.partition == partition and each.from_ms >= after_ms
    ]
    return min(begins, default=None)


def _returned(group: Changes, session: Session) -> int | None:
    """Return when a member that has left joined again, which may be before; None if it did not."""
    later = [
        each.from_ms
        for each in group.sessions_by_identity[session.identity]
        if each is not session
        and each.from_ms > session.from_ms
        and each.from_ms >= (session.to_ms or 0) - (session.silent_ms or 0)
    ]
    return min(later, default=None)


def max_poll_exceeded(group: Changes) -> Iterator[Finding]:
    """Find members that left or were removed because they polled too late [pipeline/max-poll]."""
    late = [each for each in group.sessions if each.to_ms is not None and _polled_too_late(each)]
    sure = [each for each in late if _is_sure(each)]
    at_once: dict[int, list[Session]] = {}
    for each in late:
        if each not in sure:
            at_once.setdefault(each.to_ms or 0, []).append(each)
    # Of several that are gone in one generation, one has held up the others, whatever became of
    # these meanwhile; the log does not say which one.
    sure += [some[0] for some in at_once.values() if len(some) == 1]
    for some in at_once.values():
        if len(some) > 1:
            yield _held_up(group, some)
    by_identity: dict[str, list[Session]] = {}
    for each in sorted(sure, key=lambda one: one.to_ms or 0):
        by_identity.setdefault(each.identity, []).append(each)
    for identity, sessions in by_identity.items():
        yield _polled_late(group, identity, sessions)


def _polled_late(group: Changes, identity: str, sessions: Sequence[Session]) -> Finding:
    first, last = sessions[0], sessions[-1]
    how = "left" if last.exit_kind in (LEAVE, OPEN) else "was removed"
    evidence = f"did not poll within max.poll.interval.ms{_interval(last)} and {how}"
    if last.silent_ms is not None:
        evidence += f" after {duration(last.silent_ms)} without a commit"
    if len(sessions) > 1:
        evidence += f", {len(sessions)} times"
    back = _returned(group, last)
    if back is not None:
        evidence += f"; joined again at {clock(back, group.now_ms)}"
    return _late_finding(group, identity, sessions, (first, last), evidence)


def _held_up(group: Changes, sessions: Sequence[Session]) -> Finding:
    names = [each.identity for each in sessions]
    last = max(sessions, key=lambda each: each.silent_ms or 0)
    evidence = (
        f"one of {listed(names, len(names))} did not poll within max.poll.interval.ms"
        f"{_interval(last)} and held up the group; all of them were gone after"
        f" {duration(last.silent_ms)}"
    )
    return _late_finding(group, None, sessions, (last, last), evidence)


def _interval(session: Session) -> str:
    interval_ms = session.rebalance_timeout_ms
    return "" if interval_ms is None else f" ({duration(interval_ms)})"


def _late_finding(
    group: Changes,
    subject: str | None,
    sessions: Sequence[Session],
    ends: tuple[Session, Session],
    evidence: str,
) -> Finding:
    first, last = ends
    from_ms, to_ms = (first.to_ms or 0) - (first.silent_ms or 0), last.to_ms or 0
    owned = sum(
        each.member_key == session.member_key and each.to_ms == session.to_ms
        for session in sessions
        for each in group.owned
    )
    seconds = owned * ((last.silent_ms or last.rebalance_timeout_ms or 0) / 1000)
    cost = cost_of(seconds, group.mean_lag(from_ms, to_ms))
    return Finding(
        MAX_POLL.name, group.group_id, from_ms, to_ms, to_ms, subject, len(sessions), evidence, cost
    )


def _is_sure(session: Session) -> bool:
    """Return whether a client or the coordinator says that a member polled too late."""
    said = _POLL_TIMEOUT in (session.exit_evidence or "")
    return said or session.exit_kind in _TIMEOUTS


def _polled_too_late(session: Session) -> bool:
    if _is_sure(session):
        return True
    silent_ms, interval_ms = session.silent_ms, session.rebalance_timeout_ms
    if session.exit_kind not in (LEAVE, OPEN) or silent_ms is None or interval_ms is None:
        return False
    # A process that was killed is removed when its session timeout is over. If that is about the
    # same time, nothing is known.
    session_ms = session.session_timeout_ms
    if session_ms is None or session_ms + MAX_POLL_SLACK_MS > interval_ms:
        return False
    return interval_ms <= silent_ms <= interval_ms + MAX_POLL_SLACK_MS


def static_restarts(group: Changes) -> Iterator[Finding]:
    """Find static members that came back with their place, so that nothing was rebalanced."""
    began = [each for each in group.sessions if each.entry_kind == RESTARTED_FREELY]
    for together in episodes(began, lambda each: each.from_ms, RESTARTS_APART_MS, chained=True):
        yield _static_restart(group, together)


def _static_restart(group: Changes, sessions: Sequence[Session]) -> Finding:
    names = list(dict.fromkeys(each.identity for each in sessions))
    from_ms, to_ms = sessions[0].from_ms, sessions[-1].from_ms
    if len(sessions) == 1:
        evidence = f"restarted at {clock(from_ms, group.now_ms)} without a rebalance"
    elif len(names) == 1:
        evidence = (
            f"restarted {len(sessions)} times within {duration(to_ms - from_ms)} without a"
            " rebalance"
        )
    else:
        evidence = (
            f"{counted(len(names), 'static member')} ({listed(names)}) restarted within"
            f" {duration(to_ms - from_ms)} without a rebalance"
        )
    return Finding(
        STATIC.name,
        group.group_id,
        from_ms,
        to_ms,
        from_ms,
        names[0] if len(names) == 1 else None,
        len(sessions),
        evidence,
    )
