"""Members of groups with epochs that hold partitions back or take them late, and groups whose
epochs rise too often to be reached [pipeline/held-back].

They are consumer groups (KIP-848) and streams groups, whose tasks are what partitions are of the
others.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from coterie.pipeline.findings.changes import MINUTE_MS, Bump, Changes
from coterie.pipeline.findings.finding import (
    INFO,
    WARNING,
    Finding,
    Rule,
    cost_of,
    counted,
    duration,
    episodes,
    listed,
    most_frequent,
    places_text,
)
from coterie.pipeline.findings.group import Group, Row, rows_of
from coterie.pipeline.timeline.model import DOWNGRADE

# Six heartbeat intervals of Kafka's default. An owner is asked with one heartbeat and has given up
# with a later one; what it has fetched is processed in between.
HELD_MS = 30_000
# Handovers of one member that begin within this time of each other have one cause.
APART_MS = 10 * MINUTE_MS
# Many members that start at once raise the epoch as often. A group that has not settled for as long
# as max.poll.interval.ms, five minutes by default, does not only start.
UNSETTLED_MS = 5 * MINUTE_MS
UNSETTLED_BUMPS = 5

HELD = Rule(
    "held_back_partition",
    WARNING,
    "a member of a KIP-848 or streams group kept for long what another one shall have",
)
LATE = Rule(
    "late_takeover",
    INFO,
    "a member of a KIP-848 or streams group took over long after it was free what it shall have",
)
UNSETTLED = Rule(
    "unsettled_epochs",
    WARNING,
    "the epoch of a KIP-848 or streams group rose again and again before it was reached",
)


class _Wait(NamedTuple):
    """A time for which a partition waited for a member; `to_ms` None: it still waits."""

    member_key: str
    from_ms: int
    to_ms: int | None
    row: Row


def held_back_partitions(group: Group) -> Iterator[Finding]:
    """Find members that kept what others shall have."""
    waits = [
        _Wait(row["from_member_key"], row["asked_ts"], row["given_up_ts"], row)
        for row in rows_of(group.rows.epoch_handovers)
    ]
    for identity, together in _long_waits(group, waits):
        yield _held_back(group, identity, together)


def late_takeovers(group: Group) -> Iterator[Finding]:
    """Find members that did not take what was free."""
    waits = [
        _Wait(row["to_member_key"], max(row["asked_ts"], row["given_up_ts"]), row["taken_ts"], row)
        for row in rows_of(group.rows.epoch_handovers)
        if row["given_up_ts"] is not None and row["ended_by"] != DOWNGRADE
    ]
    for identity, together in _long_waits(group, waits):
        longest = duration(_longest_ms(group, together))
        was = "it was" if len(together) == 1 else "they were"
        evidence = f"took over {_places(group, together)} {longest} after {was} free"
        if any(each.to_ms is None for each in together):
            evidence = f"has not taken over {_places(group, together)}, free for {longest}"
        yield _finding(group, LATE, identity, together, evidence, together[0].from_ms)


def _long_waits(group: Group, waits: Sequence[_Wait]) -> Iterator[tuple[str, list[_Wait]]]:
    """Yield those that took too long, by member and cause."""
    by_identity: dict[str, list[_Wait]] = {}
    for each in waits:
        if _until_ms(group, each) - each.from_ms > HELD_MS:
            identity = group.identities.get(each.member_key, each.member_key)
            by_identity.setdefault(identity, []).append(each)
    for identity, some in by_identity.items():
        some.sort(key=lambda each: each.from_ms)
        for together in episodes(some, lambda each: each.from_ms, APART_MS, chained=True):
            yield identity, together


def _until_ms(group: Group, wait: _Wait) -> int:
    return group.now_ms if wait.to_ms is None else wait.to_ms


def _longest_ms(group: Group, waits: Sequence[_Wait]) -> int:
    return max(_until_ms(group, each) - each.from_ms for each in waits)


def _places(group: Group, waits: Sequence[_Wait]) -> str:
    places = {(each.row["topic"], each.row["partition"]) for each in waits}
    text = places_text(places, "_" if group.has_tasks else "-")
    return f"{counted(len(places), group.unit)} ({text})"


def _held_back(group: Group, identity: str, waits: Sequence[_Wait]) -> Finding:
    keys = [each.row["to_member_key"] for each in waits]
    waiting = list(dict.fromkeys(group.identities.get(key, key) for key in keys))
    evidence = (
        f"kept {_places(group, waits)} for {duration(_longest_ms(group, waits))}, for which"
        f" {listed(waiting)} waited"
    )
    noticed = [each.row["noticed_ts"] for each in waits]
    if all(at_ms is None for at_ms in noticed):
        evidence += "; it sent no heartbeat with which it could have been asked"
    ends = {each.row["ended_by"] for each in waits}
    if None in ends:
        evidence += f"; it still keeps {'it' if len(waits) == 1 else 'them'}"
    elif ends != {"given up"}:
        evidence += f"; it was removed ({listed(sorted(ends - {'given up'}))})"
    known = [at_ms for at_ms in noticed if at_ms is not None]
    return _finding(group, HELD, identity, waits, evidence, min(known, default=waits[0].from_ms))


def _finding(
    group: Group, rule: Rule, subject: str, waits: Sequence[_Wait], evidence: str, at_ms: int
) -> Finding:
    from_ms = waits[0].from_ms
    to_ms = max(_until_ms(group, each) for each in waits)
    # The owner goes on reading until it is asked.
    seconds = sum(
        _until_ms(group, each) - (each.row["noticed_ts"] or each.from_ms) for each in waits
    )
    return Finding(
        rule.name,
        group.group_id,
        from_ms,
        to_ms,
        at_ms,
        subject,
        _longest_ms(group, waits) / 1000,
        evidence,
        cost_of(max(0, seconds) / 1000, group.mean_lag(from_ms, to_ms)),
    )


def unsettled_epochs(group: Changes) -> Iterator[Finding]:
    """Find times in which members could not follow, because the epoch rose again before."""
    if group.is_share_group:
        return
    run: list[Bump] = []
    for bump in group.bumps:
        run.append(bump)
        if bump.stable_ms is not None:
            yield from _unsettled(group, run)
            run = []
    yield from _unsettled(group, run)


def _unsettled(group: Changes, run: Sequence[Bump]) -> Iterator[Finding]:
    if len(run) < UNSETTLED_BUMPS or run[-1].at_ms - run[0].at_ms < UNSETTLED_MS:
        return
    from_ms = run[0].at_ms
    to_ms = group.now_ms if run[-1].stable_ms is None else run[-1].stable_ms
    name, times = most_frequent(each.identity for each in run if each.identity is not None)
    subject = name if 2 * times >= len(run) else None
    cause, of_cause = most_frequent(each.cause for each in run)
    evidence = (
        f"the epoch rose {len(run)} times within {duration(to_ms - from_ms)} before all members"
        f" had reached it, {of_cause} of them because of: {cause}"
    )
    if subject is not None:
        evidence += f"; {times} of them by {subject}"
    yield Finding(
        UNSETTLED.name, group.group_id, from_ms, to_ms, from_ms, subject, len(run), evidence
    )
