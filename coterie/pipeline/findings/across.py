"""Findings across groups, and the order of all findings.

A broker that restarts, or a deployment of many applications, touches many groups at the same time:
that is one finding with its groups [pipeline/broker-restart].
"""

from collections.abc import Iterable, Iterator, Sequence
from math import ceil
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from coterie.pipeline.findings import bursts
from coterie.pipeline.findings.finding import (
    CRITICAL,
    INFO,
    WARNING,
    Finding,
    Rule,
    clock,
    cost_of,
    counted,
    finding_columns,
    most_frequent,
)
from coterie.pipeline.findings.group import Row, in_operation, rows_of
from coterie.pipeline.findings.of_group import GROUP_RULES
from coterie.pipeline.findings.unreadable import UNREADABLE
from coterie.pipeline.report.words import duration

# Groups that rebalance within a minute of each other have one cause: a member expires after 45 s
# by default, and notices a rebalance with its next heartbeat.
TOGETHER_MS = 60_000
# Fewer groups are no proof that the cause is a common one, and neither is what happens in a cluster
# anyway: less than a fifth of the groups, or not many more than rebalance in other minutes.
TOUCHED_GROUPS = 4
TOUCHED_PART = 5
UNUSUAL = 5
# A coordinator that loaded its partitions shortly before explains the rebalances of its groups.
AFTER_LOAD_MS = 120_000

RESTART = Rule(
    "broker_restart",
    WARNING,
    "many groups rebalanced at once: a broker or coordinator restarted, or a network failed",
)
ROLLOUT = Rule("rollout", INFO, "members of many groups left and joined at once")

RULES: tuple[Rule, ...] = (*GROUP_RULES[:4], RESTART, UNREADABLE, *GROUP_RULES[4:], ROLLOUT)
SEVERITIES = {rule.name: rule.severity for rule in RULES}
_ORDER = {CRITICAL: 0, WARNING: 1, INFO: 2}
# What the members of a group do when they are deployed. Everything else happens to them.
_VOLUNTARY = ("join", "leave", "static replacement")


# The columns of `rebalances` that matter here.
ACROSS = (
    "group_id", "started_ts", "completed_ts", "trigger", "partitions", "unowned_partition_ms",
    "joined", "left", "members",
)  # fmt: skip


class Touch(NamedTuple):
    """A rebalance of a group, as far as it matters across groups."""

    at_ms: int
    group_id: str
    cause: str
    partition_seconds: float
    joined: Sequence[str]
    left: Sequence[str]
    members: int


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
) -> list[Finding]:
    """Return the findings of all groups with those across groups, ranked.

    Args:
        of_groups: the results of `group_findings`.
        rebalances: the columns `ACROSS` of all rebalances.
        loaded_ms: when a coordinator loaded a partition, as far as journals say, in order.
        now_ms: see `end_of_records`.
    """
    across = list(_across(rebalances, loaded_ms, now_ms))
    found = [each for each in of_groups if not _is_explained(each, across)]
    return ranked([*found, *across])


def finding_rows(findings: Iterable[Finding]) -> list[Row]:
    """Return findings as rows of the table `anomalies`, with times in microseconds."""
    return [finding_columns(each, SEVERITIES) for each in findings]


def ranked(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings in order: by severity, then by cost, then by time [pipeline/ranking]."""
    order = sorted(
        findings,
        key=lambda each: (
            _ORDER[SEVERITIES[each.rule]],
            -each.cost,
            -each.to_ms,
            each.rule,
            each.group_id or "",
            each.from_ms,
        ),
    )
    return [each._replace(rank=rank) for rank, each in enumerate(order, 1)]


def _across(rebalances: pa.Table, loaded_ms: Sequence[int], now_ms: int) -> Iterator[Finding]:
    touches = _touches(rebalances)
    known = len(pc.unique(rebalances.column("group_id")))
    for together in _together(touches, _needed(touches, known)):
        loads = [
            at_ms
            for at_ms in loaded_ms
            if together[0].at_ms - AFTER_LOAD_MS <= at_ms <= together[-1].at_ms
        ]
        yield _finding(together, loads, known, now_ms)


def _needed(touches: Sequence[Touch], known: int) -> int:
    """Return how many groups must rebalance together [pipeline/broker-restart]."""
    if not touches:
        return TOUCHED_GROUPS
    minutes = 1 + (touches[-1].at_ms - touches[0].at_ms) / TOGETHER_MS
    usual = len(touches) / minutes
    unusual = max(known / TOUCHED_PART, TOUCHED_GROUPS + UNUSUAL * usual)
    return max(TOUCHED_GROUPS, ceil(min(unusual, known / 2)))


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
            seconds,
            row["joined"] or (),
            row["left"] or (),
            row["members"] or 0,
        )
        of_groups.setdefault(row["group_id"], []).append(touch)
    return sorted(
        touch
        for touches in of_groups.values()
        # Starting or stopping a group has no cause outside of it.
        for touch in in_operation(sorted(touches, key=lambda each: each.at_ms))
    )


def _together(touches: Sequence[Touch], needed: int) -> Iterator[list[Touch]]:
    """Yield the times in which at least `needed` groups rebalanced within a minute."""
    counts: dict[str, int] = {}
    first = 0
    current: list[int] | None = None
    for last, touch in enumerate(touches):
        counts[touch.group_id] = counts.get(touch.group_id, 0) + 1
        while touches[first].at_ms < touch.at_ms - TOGETHER_MS:
            gone = touches[first].group_id
            counts[gone] -= 1
            if not counts[gone]:
                del counts[gone]
            first += 1
        if len(counts) < needed:
            continue
        if current is not None and first <= current[1]:
            current[1] = last
        else:
            if current is not None:
                yield list(touches[current[0] : current[1] + 1])
            current = [first, last]
    if current is not None:
        yield list(touches[current[0] : current[1] + 1])


def _finding(together: Sequence[Touch], loads: Sequence[int], known: int, now_ms: int) -> Finding:
    groups = sorted({touch.group_id for touch in together})
    from_ms, to_ms = together[0].at_ms, together[-1].at_ms
    voluntary = sum(touch.cause in _VOLUNTARY for touch in together)
    cause, times = most_frequent(touch.cause for touch in together)
    is_rollout = not loads and 2 * voluntary > len(together)
    evidence = (
        f"{len(groups)} of {counted(known, 'group')} rebalanced within {duration(to_ms - from_ms)}:"
        f" {times} of {counted(len(together), 'rebalance')} by {cause}"
    )
    if loads:
        evidence += f"; the coordinator loaded its partitions at {clock(loads[0], now_ms)}"
        from_ms = min(from_ms, loads[0])
    seconds = sum(touch.partition_seconds for touch in together)
    rule = ROLLOUT if is_rollout else RESTART
    return Finding(
        rule.name,
        None,
        from_ms,
        to_ms,
        together[0].at_ms,
        None,
        len(groups),
        evidence,
        cost_of(seconds, 0),
        tuple(groups),
    )


def _is_explained(finding: Finding, across: Sequence[Finding]) -> bool:
    """Return whether a deployment or storm is part of what happened to many groups."""
    return any(
        finding.rule in (bursts.DEPLOYMENT.name, bursts.STORM.name)
        and finding.group_id in other.groups
        and other.from_ms <= finding.from_ms
        and finding.to_ms <= other.to_ms + TOGETHER_MS
        for other in across
    )
