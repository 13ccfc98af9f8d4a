"""Many rebalances in a short time: a storm, a deployment, or a member that comes and goes.

A deployment of n members costs up to 2n rebalances, because each of them leaves and joins. A storm
is a burst that no deployment explains [pipeline/rebalance-storm].
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from coterie.pipeline.findings.changes import MINUTE_MS, Changes, Event, Session, in_operation
from coterie.pipeline.findings.finding import (
    CRITICAL,
    INFO,
    WARNING,
    Finding,
    Rule,
    cost_of,
    counted,
    duration,
    most_frequent,
)
from coterie.pipeline.timeline.model import DOWNGRADE, UPGRADE

# Fewer rebalances in ten minutes are everyday business: a member that is replaced costs two.
BURST_REBALANCES = 5
BURST_MS = 10 * MINUTE_MS
# A group that rebalances all the time has a storm only if there are this many times more.
UNUSUAL = 3
# Less history than this does not show what is usual.
USUAL_MS = 60 * MINUTE_MS

# Kafka's max.poll.interval.ms is five minutes by default. A member that leaves earlier has hardly
# worked. Three such members within half an hour are no deployment [pipeline/flapping-member].
SHORT_SESSION_MS = 5 * MINUTE_MS
FLAPS = 3
FLAP_MS = 30 * MINUTE_MS

REPLACED = "replaced"

STORM = Rule(
    "rebalance_storm",
    CRITICAL,
    "more rebalances within ten minutes than a deployment costs, and than is usual for the group",
)
DEPLOYMENT = Rule("deployment", INFO, "rebalances in which each member left and joined once")
FLAPPING = Rule(
    "flapping_member",
    WARNING,
    f"a client that joined and left {FLAPS} times or more within 30 minutes, each time for less"
    " than five minutes",
)


class Burst(NamedTuple):
    """Rebalances in a short time.

    Attributes:
        events: the rebalances.
        peak: the most of them within ten minutes.
    """

    events: Sequence[Event]
    peak: int

    @property
    def from_ms(self) -> int:
        """When the first one began."""
        return self.events[0].at_ms

    @property
    def to_ms(self) -> int:
        """When the last one began."""
        return self.events[-1].at_ms


def bursts_of(events: Sequence[Event]) -> list[Burst]:
    """Return the bursts of a group's rebalances."""
    found: list[tuple[int, int, int]] = []
    first = 0
    for last, event in enumerate(events):
        while events[first].at_ms < event.at_ms - BURST_MS:
            first += 1
        count = last - first + 1
        if count < BURST_REBALANCES:
            continue
        if found and first <= found[-1][1]:
            found[-1] = (found[-1][0], last, max(found[-1][2], count))
        else:
            found.append((first, last, count))
    return [Burst(events[first : last + 1], peak) for first, last, peak in found]


def rebalance_bursts(group: Changes) -> Iterator[Finding]:
    """Find storms and deployments; the members of a share group go on reading in a rebalance."""
    if group.is_share_group:
        return
    bursts = bursts_of(in_operation(group.events))
    flapping = list(flapping_members(group)) if bursts else []
    for burst in bursts:
        # In a deployment nobody comes and goes again and again.
        flaps = any(
            each.from_ms <= burst.to_ms and burst.from_ms <= each.to_ms for each in flapping
        )
        if not flaps and _is_deployment(group, burst):
            yield _deployment(group, burst)
        elif burst.peak >= UNUSUAL * _usual(group, bursts):
            yield _storm(group, burst)


def _touched(group: Changes, event: Event) -> set[str]:
    """Return the identities whose coming or going caused a rebalance, as far as is known."""
    if event.identity is not None:
        return {event.identity}
    return {group.identities.get(key, key) for key in (*event.joined, *event.left)}


def _is_deployment(group: Changes, burst: Burst) -> bool:
    """Return whether every member left and joined at most once [pipeline/deployment]."""
    members = group.members_within(burst.from_ms, burst.to_ms)
    # A group that changes its type with its members has one more.
    changes = sum(event.cause in (UPGRADE, DOWNGRADE) for event in burst.events)
    if len(burst.events) - changes > 2 * max(members, 1):
        return False
    times: dict[str, int] = {}
    untouched = 0
    for event in burst.events:
        touched = _touched(group, event)
        # Nobody came or went: topics changed, or the coordinator asked members to rejoin.
        untouched += not touched
        for identity in touched:
            times[identity] = times.get(identity, 0) + 1
    return 2 * untouched <= len(burst.events) and all(
        count <= 2 * max(1, group.members_within(burst.from_ms, burst.to_ms, identity))
        for identity, count in times.items()
    )


def _usual(group: Changes, bursts: Sequence[Burst]) -> float:
    """Return the usual number of rebalances in ten minutes, outside bursts; 0 if unknown."""
    events = group.events
    rest = len(events) - sum(len(burst.events) for burst in bursts)
    history_ms = group.now_ms - events[0].at_ms
    history_ms -= sum(burst.to_ms - burst.from_ms for burst in bursts)
    return rest * BURST_MS / history_ms if history_ms >= USUAL_MS else 0.0


def _deployment(group: Changes, burst: Burst) -> Finding:
    members = group.members_within(burst.from_ms, burst.to_ms)
    count = len(burst.events)
    evidence = (
        f"{counted(count, 'rebalance')} within {duration(burst.to_ms - burst.from_ms)},"
        f" in which each of up to {counted(members, 'member')} left or joined once"
    )
    return _finding(DEPLOYMENT.name, group, burst.events, None, count, evidence)


def _storm(group: Changes, burst: Burst) -> Finding:
    count = len(burst.events)
    members = group.members_within(burst.from_ms, burst.to_ms)
    culprit, caused = most_frequent(
        event.identity for event in burst.events if event.identity is not None
    )
    others = sorted(
        {event.identity for event in burst.events if event.identity not in (None, culprit)},
        key=lambda identity: (-_caused(burst, identity), identity or ""),
    )
    also = others[0] if others and 4 * _caused(burst, others[0]) >= count else None
    within = f"{counted(count, 'rebalance')} within {duration(burst.to_ms - burst.from_ms)}"
    if 2 * caused >= count:
        subject: str | None = culprit
        cause, times = most_frequent(
            event.cause for event in burst.events if event.identity == culprit
        )
        what = cause if times == caused else f"mostly {cause}"
        rest = f", {caused} of them caused by {culprit} ({what})"
        if also is not None:
            rest += f" and {_caused(burst, also)} by {also}"
    else:
        subject = None
        cause, times = most_frequent(event.cause for event in burst.events)
        rest = f", {times} of them: {cause}"
    evidence = f"{within}{rest}; {counted(members, 'member')}"
    return _finding(STORM.name, group, burst.events, subject, count, evidence)


def _caused(burst: Burst, identity: str | None) -> int:
    return sum(event.identity == identity for event in burst.events)


def _finding(
    rule: str,
    group: Changes,
    events: Sequence[Event],
    subject: str | None,
    value: int,
    evidence: str,
) -> Finding:
    from_ms, to_ms = events[0].at_ms, events[-1].at_ms
    worst = max(events, key=lambda event: (event.partition_seconds, -event.at_ms))
    seconds = sum(event.partition_seconds for event in events)
    cost = cost_of(seconds, group.mean_lag(from_ms, to_ms))
    return Finding(
        rule, group.group_id, from_ms, to_ms, worst.at_ms, subject, value, evidence, cost
    )


def flapping_members(group: Changes) -> Iterator[Finding]:
    """Find clients that join and leave again and again."""
    for identity, sessions in group.sessions_by_identity.items():
        ended = [
            session
            for session in sessions
            if session.to_ms is not None
            and session.exit_kind != REPLACED
            and session.to_ms - session.from_ms < SHORT_SESSION_MS
        ]
        if len(ended) < FLAPS:
            continue
        ended.sort(key=lambda session: session.to_ms or 0)
        for flaps in _flaps(group, identity, ended):
            yield _flapping(group, identity, flaps)


def _flaps(group: Changes, identity: str, ended: Sequence[Session]) -> Iterator[list[Session]]:
    """Yield the short sessions that follow each other too often."""
    found: list[tuple[int, int]] = []
    first = 0
    for last, session in enumerate(ended):
        to_ms = session.to_ms or 0
        while (ended[first].to_ms or 0) < to_ms - FLAP_MS:
            first += 1
        if last - first + 1 < FLAPS:
            continue
        if found and first <= found[-1][1]:
            found[-1] = (found[-1][0], last)
        else:
            found.append((first, last))
    for begin, end in found:
        flaps = list(ended[begin : end + 1])
        # Several processes of one client and host may leave once each.
        at_once = group.members_within(flaps[0].from_ms, flaps[-1].to_ms or 0, identity)
        if len(flaps) >= FLAPS * max(1, at_once):
            yield flaps


def _flapping(group: Changes, identity: str, flaps: Sequence[Session]) -> Finding:
    from_ms, to_ms = flaps[0].from_ms, flaps[-1].to_ms or 0
    kind, times = most_frequent(session.exit_kind or "unknown" for session in flaps)
    caused = [
        event
        for event in group.events
        if from_ms <= event.at_ms <= to_ms and event.identity == identity
    ]
    how = kind if times == len(flaps) else f"mostly {kind}"
    evidence = (
        f"joined and left {len(flaps)} times within {duration(to_ms - from_ms)} ({how}),"
        f" which caused {counted(len(caused), 'rebalance')}"
    )
    if not caused:
        return Finding(
            FLAPPING.name, group.group_id, from_ms, to_ms, to_ms, identity, len(flaps), evidence
        )
    found = _finding(FLAPPING.name, group, caused, identity, len(flaps), evidence)
    return found._replace(from_ms=from_ms, to_ms=to_ms)
