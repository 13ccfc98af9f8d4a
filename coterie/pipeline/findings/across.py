"""Findings across groups, and the order of all findings.

A broker that restarts, or a deployment of many applications, touches many groups at the same time:
that is one finding with its groups [pipeline/broker-restart]. What a member of a group caused is
never explained by what happened to other groups.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from coterie.client.names import natural_order
from coterie.pipeline.findings.changes import Session, event_of, session_of
from coterie.pipeline.findings.finding import (
    CRITICAL,
    INFO,
    WARNING,
    Finding,
    Rule,
    finding_columns,
)
from coterie.pipeline.findings.group import Row, rows_of
from coterie.pipeline.findings.many_groups import (
    ROLLOUT,
    Touch,
    findings_across,
    in_order,
    touch_of,
)
from coterie.pipeline.findings.of_group import GROUP_RULES, MEMBER_RULES
from coterie.pipeline.findings.outages import RESTART
from coterie.pipeline.findings.precedence import is_explained_across

UNREADABLE = Rule(
    "unreadable_history", WARNING, "the records of a group contradict each other or are damaged"
)
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
# The columns of `rebalances` and `member_sessions` that matter here.
ACROSS = (
    "group_id", "started_ts", "completed_ts", "trigger", "trigger_identity", "partitions",
    "unowned_partition_ms", "joined", "left", "members",
)  # fmt: skip
ACROSS_SESSIONS = (
    "group_id", "member_key", "identity", "first_seen_ts", "last_seen_ts", "exit_kind",
    "silent_ms",
)  # fmt: skip


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
    records_ms = [*commits_ms, *(touch.at_ms for touch in touches)]
    for of_group in by_group.values():
        for each in of_group:
            records_ms += [each.from_ms] if each.to_ms is None else [each.from_ms, each.to_ms]
    across = findings_across(touches, by_group, known, records_ms, loaded_ms, now_ms)
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


def _sessions(table: pa.Table) -> dict[str, list[Session]]:
    """Return the sessions of each group, by their beginnings."""
    found: dict[str, list[Session]] = {}
    for row in rows_of(table, ACROSS_SESSIONS):
        found.setdefault(row["group_id"], []).append(session_of(row))
    return {group: sorted(each, key=lambda one: one.from_ms) for group, each in found.items()}


def _touches(rebalances: pa.Table) -> list[Touch]:
    """Return the rebalances by time."""
    of_groups: dict[str, list[Touch]] = {}
    for row in rows_of(rebalances, ACROSS):
        event = event_of(row)
        if event is not None:
            of_groups.setdefault(row["group_id"], []).append(touch_of(row["group_id"], event))
    return in_order(of_groups.values())


def unreadable_histories(rows: Iterable[Row], now_ms: int) -> Iterator[Finding]:
    """Return a finding for each group without a history [pipeline/journal-then-log].

    Args:
        rows: `group_id` and `error` of each.
        now_ms: the end of the records.
    """
    for row in rows:
        yield Finding(
            UNREADABLE.name,
            row["group_id"],
            now_ms,
            now_ms,
            now_ms,
            None,
            1,
            f"its rebalances are not in the tables: {row['error']}",
        )
