"""Findings across groups, and the order of all findings.

A broker that restarts, or a deployment of many applications, touches many groups at the same time:
that is one finding with its groups [pipeline/broker-restart]. What a member of a group caused is
never explained by what happened to other groups.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import ceil
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from coterie.client.names import natural_order
from coterie.pipeline.findings.changes import Session, in_operation
from coterie.pipeline.findings.finding import (
    CRITICAL,
    INFO,
    WARNING,
    Finding,
    Rule,
    cost_of,
    counted,
    finding_columns,
    most_frequent,
)
from coterie.pipeline.findings.group import Row, rows_of
from coterie.pipeline.findings.of_group import GROUP_RULES, MEMBER_RULES
from coterie.pipeline.findings.outages import RESTART, loaded_text, outage_finding, outages
from coterie.pipeline.findings.precedence import TOGETHER_MS, covers, is_explained_across
from coterie.pipeline.findings.turnovers import Turnover, all_turnovers, together
from coterie.pipeline.findings.unreadable import UNREADABLE
from coterie.pipeline.report.words import duration

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

RULES: tuple[Rule, ...] = (
    *GROUP_RULES[:2],
    RESTART,
    *GROUP_RULES[2:6],
    UNREADABLE,
    *GROUP_RULES[6:],
    ROLLOUT,
)
SEVERITIES = {rule.name: rule.severity for rule in RULES}
_ORDER = {CRITICAL: 0, WARNING: 1, INFO: 2}
# Of findings of one severity those come first that say which member did what, because they usually
# are the cause of the others [pipeline/ranking].
_FIRST = {rule.name for rule in (RESTART, *MEMBER_RULES)}
# A rebalance of many groups without a member as cause has one of these causes.
_OF_NOBODY = ("session expiry", "unknown")

# The columns of `rebalances` and `member_sessions` that matter here.
ACROSS = (
    "group_id", "started_ts", "completed_ts", "trigger", "trigger_identity", "partitions",
    "unowned_partition_ms", "joined", "left", "members",
)  # fmt: skip
ACROSS_SESSIONS = (
    "group_id", "member_key", "identity", "first_seen_ts", "last_seen_ts", "exit_kind",
    "silent_ms",
)  # fmt: skip


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


def end_of_records(times: Iterable[Any]) -> int:
    """Return the end of the records, the "now" of all rules, in epoch milliseconds.

    Args:
        times: the largest `last_ts` of minutes, `completed_ts` of rebalances and `window_start_ts`
            of `lag_1m`, in epoch milliseconds; None where there are no rows.
    """
    return max((time for time in times if time is not None), default=0)


def all_findings(
    of_groups: Iterable[Finding],
    rebalances: pa.Table,
    loaded_ms: Sequence[int] = (),
    now_ms: int = 0,
    sessions: pa.Table | None = None,
    commits_ms: Iterable[int] = (),
) -> list[Finding]:
    """Return the findings of all groups with those across groups, ranked.

    Args:
        of_groups: the results of `group_findings`.
        rebalances: the columns `ACROSS` of all rebalances.
        loaded_ms: when a coordinator loaded a partition, as far as journals say, in order.
        now_ms: see `end_of_records`.
        sessions: the columns `ACROSS_SESSIONS` of all sessions.
        commits_ms: the seconds in which any group committed, in epoch milliseconds.
    """
    touches = _touches(rebalances)
    known = len(pc.unique(rebalances.column("group_id")))
    by_group = {} if sessions is None else _sessions(sessions)
    across = list(_outages(touches, by_group, commits_ms, loaded_ms, now_ms))
    across += _turnovers(touches, by_group, known, across)
    across += _without_culprit(touches, known, loaded_ms, now_ms, across)
    found = [each for each in of_groups if not is_explained_across(each, across)]
    return ranked([*found, *across])


def finding_rows(findings: Iterable[Finding]) -> list[Row]:
    """Return findings as rows of the table `anomalies`, with times in microseconds."""
    return [finding_columns(each, SEVERITIES) for each in findings]


def ranked(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings in order: severity, what members did, cost, time [pipeline/ranking]."""
    order = sorted(
        findings,
        key=lambda each: (
            _ORDER[SEVERITIES[each.rule]],
            each.rule not in _FIRST,
            -each.cost,
            -each.to_ms,
            each.rule,
            natural_order(each.group_id or ""),
            each.from_ms,
        ),
    )
    return [each._replace(rank=rank) for rank, each in enumerate(order, 1)]


def _needed(touches: Sequence[Touch], known: int) -> int:
    """Return how many groups must rebalance together [pipeline/broker-restart]."""
    if not touches:
        return TOUCHED_GROUPS
    minutes = 1 + (touches[-1].at_ms - touches[0].at_ms) / TOGETHER_MS
    usual = len(touches) / minutes
    unusual = max(known / TOUCHED_PART, TOUCHED_GROUPS + UNUSUAL * usual)
    return max(TOUCHED_GROUPS, ceil(min(unusual, known / 2)))


def _sessions(table: pa.Table) -> dict[str, list[Session]]:
    """Return the sessions of each group, by their beginnings."""
    found: dict[str, list[Session]] = {}
    for row in rows_of(table, ACROSS_SESSIONS):
        key, begin, end = row["member_key"], row["first_seen_ts"], row["last_seen_ts"]
        session = Session(
            key, row["identity"] or key, begin, end, row["exit_kind"], silent_ms=row["silent_ms"]
        )
        found.setdefault(row["group_id"], []).append(session)
    return {group: sorted(each, key=lambda one: one.from_ms) for group, each in found.items()}


def _touches(rebalances: pa.Table) -> list[Touch]:
    """Return the rebalances by time."""
    at = pc.coalesce(rebalances.column("started_ts"), rebalances.column("completed_ts"))
    rows = rows_of(rebalances.select(ACROSS).append_column("at", at))
    of_groups: dict[str, list[Touch]] = {}
    for row in rows:
        if row["at"] is None:
            continue
        unowned_ms = row["unowned_partition_ms"]
        seconds = float(row["partitions"] or 0) if unowned_ms is None else unowned_ms / 1000
        touch = Touch(
            row["at"],
            row["group_id"],
            row["trigger"] or "unknown",
            row["trigger_identity"],
            row["partitions"] or 0,
            seconds,
            row["joined"] or (),
            row["left"] or (),
            row["members"] or 0,
        )
        of_groups.setdefault(row["group_id"], []).append(touch)
    return sorted(
        (
            touch
            for touches in of_groups.values()
            # Starting or stopping a group has no cause outside of it.
            for touch in in_operation(sorted(touches, key=lambda each: each.at_ms))
        ),
        key=lambda touch: (touch.at_ms, touch.group_id),
    )


def _outages(
    touches: Sequence[Touch],
    sessions: Mapping[str, Sequence[Session]],
    commits_ms: Iterable[int],
    loaded_ms: Sequence[int],
    now_ms: int,
) -> Iterator[Finding]:
    """Find restarts that left a silence of all groups [pipeline/outage]."""
    records = [*commits_ms, *(touch.at_ms for touch in touches)]
    for of_group in sessions.values():
        for each in of_group:
            records += [each.from_ms] if each.to_ms is None else [each.from_ms, each.to_ms]
    partitions = {touch.group_id: touch.partitions for touch in touches}
    for outage in outages(records, sessions, loaded_ms):
        yield outage_finding(outage, partitions, now_ms)


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
    current: list[Touch] = []
    for touch in [*counted_, None]:
        if current and (touch is None or touch.at_ms > current[0].at_ms + TOGETHER_MS):
            if len({each.group_id for each in current}) >= needed:
                yield _together(current, known, loaded_ms, now_ms)
            current = []
        if touch is not None:
            current.append(touch)


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
