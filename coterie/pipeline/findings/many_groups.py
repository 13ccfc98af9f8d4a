"""What happened to many groups at the same time, from their rebalances and sessions.

A broker that restarts, or a deployment of many applications, is one finding with its groups
[pipeline/broker-restart]. Nothing here needs Arrow, so `groups check` judges journals by the same
functions as the page its tables.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import ceil
from typing import NamedTuple

from coterie.pipeline.findings.changes import Event, Session, in_operation
from coterie.pipeline.findings.finding import (
    INFO,
    Finding,
    Rule,
    cost_of,
    counted,
    duration,
    episodes,
    most_frequent,
)
from coterie.pipeline.findings.outages import RESTART, loaded_text, outage_finding, outages
from coterie.pipeline.findings.precedence import TOGETHER_MS, covers
from coterie.pipeline.findings.turnovers import Turnover, all_turnovers, together

# The members of many groups are replaced by one cause within this time: the groups of a broker that
# is gone are taken over at once, and their members try again several times a second.
AT_ONCE_MS = 30_000
# Fewer groups are no proof that the cause is a common one, and neither is what happens in a cluster
# anyway: less than a fifth of the groups, or not many more than rebalance in other minutes.
TOUCHED_GROUPS = 4
TOUCHED_PART = 5
UNUSUAL = 5
# A coordinator that loaded its partitions shortly before explains the rebalances of its groups.
AFTER_LOAD_MS = 120_000

ROLLOUT = Rule("rollout", INFO, "all members of many groups were replaced at the same time")
# A rebalance of many groups without a member as cause has one of these causes.
_OF_NOBODY = ("session expiry", "unknown")


class Touch(NamedTuple):
    """A rebalance of a group, as far as it matters across groups."""

    at_ms: int
    group_id: str
    cause: str
    identity: str | None
    partitions: int
    partition_seconds: float
    joined: Sequence[str]
    left: Sequence[str]
    members: int

    @property
    def has_culprit(self) -> bool:
        """Whether a member of the group caused it, or members came and went."""
        return self.identity is not None or self.cause not in _OF_NOBODY


def touch_of(group_id: str, event: Event) -> Touch:
    """Return a rebalance of a group."""
    return Touch(
        event.at_ms,
        group_id,
        event.cause,
        event.identity,
        event.partitions,
        event.partition_seconds,
        event.joined,
        event.left,
        event.members,
    )


def in_order(of_groups: Iterable[Iterable[Touch]]) -> list[Touch]:
    """Return the rebalances of groups by time, without those that start or stop a group.

    These have no cause outside of the group.
    """
    return sorted(
        (
            touch
            for touches in of_groups
            for touch in in_operation(sorted(touches, key=lambda each: each.at_ms))
        ),
        key=lambda touch: (touch.at_ms, touch.group_id),
    )


def findings_across(
    touches: Sequence[Touch],
    sessions: Mapping[str, Sequence[Session]],
    known: int,
    records_ms: Iterable[int],
    loaded_ms: Sequence[int],
    now_ms: int,
) -> list[Finding]:
    """Return the findings across groups.

    Args:
        touches: the rebalances, see `in_order`.
        sessions: the sessions of each group, by their beginnings.
        known: how many groups rebalanced at all.
        records_ms: when anything was recorded, see `outages`.
        loaded_ms: when a coordinator loaded a partition, as far as journals say, in order.
        now_ms: the end of the records.
    """
    partitions = {touch.group_id: touch.partitions for touch in touches}
    across = [
        outage_finding(each, partitions, now_ms)
        for each in outages(records_ms, sessions, loaded_ms)
    ]
    across += _turnovers(touches, sessions, known, across)
    across += _without_culprit(touches, known, loaded_ms, now_ms, across)
    return across


def _needed(touches: Sequence[Touch], known: int) -> int:
    """Return how many groups must rebalance together [pipeline/broker-restart]."""
    if not touches:
        return TOUCHED_GROUPS
    minutes = 1 + (touches[-1].at_ms - touches[0].at_ms) / TOGETHER_MS
    usual = len(touches) / minutes
    unusual = max(known / TOUCHED_PART, TOUCHED_GROUPS + UNUSUAL * usual)
    return max(TOUCHED_GROUPS, ceil(min(unusual, known / 2)))


def _turnovers(
    touches: Sequence[Touch],
    sessions: Mapping[str, Sequence[Session]],
    known: int,
    across: Sequence[Finding],
) -> Iterator[Finding]:
    """Find many groups whose members were all replaced [pipeline/rollout]."""
    free = [
        each
        for each in all_turnovers(sessions)
        if not any(covers(other, each.group_id, each.from_ms, each.to_ms) for other in across)
    ]
    needed = max(TOUCHED_GROUPS, ceil(known / TOUCHED_PART))
    for rule, some, within_ms in (
        (RESTART, [each for each in free if each.at_once], AT_ONCE_MS),
        (ROLLOUT, [each for each in free if not each.at_once], TOGETHER_MS),
    ):
        for found in together(some, within_ms):
            if len({each.group_id for each in found}) >= needed:
                yield _turnover(rule, found, touches, known)


def _latest(moments: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Return the last moment of each group, in the order of their names."""
    found: dict[str, int] = {}
    for group_id, at_ms in moments:
        found[group_id] = max(at_ms, found.get(group_id, at_ms))
    return dict(sorted(found.items()))


def _turnover(
    rule: Rule, found: Sequence[Turnover], touches: Sequence[Touch], known: int
) -> Finding:
    groups = _latest((each.group_id, each.to_ms) for each in found)
    from_ms, to_ms = min(each.from_ms for each in found), max(each.to_ms for each in found)
    evidence = (
        f"all members of {len(groups)} of {counted(known, 'group')} were replaced within"
        f" {duration(to_ms - from_ms)}"
    )
    seconds = sum(
        touch.partition_seconds
        for touch in touches
        if from_ms <= touch.at_ms <= to_ms and touch.group_id in groups
    )
    return Finding(
        rule.name,
        None,
        from_ms,
        to_ms,
        from_ms,
        None,
        len(groups),
        evidence,
        cost_of(seconds, 0),
        tuple(groups),
        groups_at_ms=tuple(groups.values()),
    )


def _without_culprit(
    touches: Sequence[Touch],
    known: int,
    loaded_ms: Sequence[int],
    now_ms: int,
    across: Sequence[Finding],
) -> Iterator[Finding]:
    """Find many groups that rebalanced within a minute, and no member of theirs caused it.

    If a coordinator loaded its partitions shortly before, its members come back by themselves.
    """
    counted_ = [
        touch
        for touch in touches
        if not any(covers(other, touch.group_id, touch.at_ms, touch.at_ms) for other in across)
        and (not touch.has_culprit or _load_before(touch.at_ms, loaded_ms) is not None)
    ]
    needed = _needed(counted_, known)
    for found in episodes(counted_, lambda touch: touch.at_ms, TOGETHER_MS):
        if len({each.group_id for each in found}) >= needed:
            yield _together(found, known, loaded_ms, now_ms)


def _load_before(at_ms: int, loaded_ms: Sequence[int]) -> int | None:
    return next((each for each in loaded_ms if at_ms - AFTER_LOAD_MS <= each <= at_ms), None)


def _together(found: Sequence[Touch], known: int, loaded_ms: Sequence[int], now_ms: int) -> Finding:
    groups = _latest((touch.group_id, touch.at_ms) for touch in found)
    from_ms, to_ms = found[0].at_ms, found[-1].at_ms
    cause, times = most_frequent(touch.cause for touch in found)
    evidence = (
        f"{len(groups)} of {counted(known, 'group')} rebalanced within {duration(to_ms - from_ms)}:"
        f" {times} of {counted(len(found), 'rebalance')} by {cause}"
    )
    load_ms = _load_before(from_ms, loaded_ms)
    if load_ms is not None:
        evidence += loaded_text([load_ms], now_ms)
    return Finding(
        RESTART.name,
        None,
        from_ms if load_ms is None else load_ms,
        to_ms,
        from_ms,
        None,
        len(groups),
        evidence,
        cost_of(sum(touch.partition_seconds for touch in found), 0),
        tuple(groups),
        groups_at_ms=tuple(groups.values()),
    )
