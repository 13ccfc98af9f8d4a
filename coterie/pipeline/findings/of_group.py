"""The rules, applied to one group."""

from collections.abc import Callable, Iterable, Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from coterie.pipeline.findings import (
    assignments,
    bursts,
    commits,
    departed,
    epochs,
    retention,
    shares,
    stalls,
)
from coterie.pipeline.findings.finding import Finding, Rule
from coterie.pipeline.findings.group import Group, GroupRows
from coterie.pipeline.findings.precedence import without_explained

_FIND: tuple[Callable[[Group], Iterable[Finding]], ...] = (
    bursts.rebalance_bursts,
    bursts.flapping_members,
    departed.expired_members,
    departed.max_poll_exceeded,
    departed.static_restarts,
    epochs.held_back_partitions,
    epochs.late_takeovers,
    epochs.unsettled_epochs,
    stalls.stalled_partitions,
    commits.rewinds,
    commits.zombie_commits,
    assignments.needless_moves,
    assignments.unbalanced_assignment,
    retention.group_about_to_expire,
    shares.share_findings,
)

GROUP_RULES: tuple[Rule, ...] = (
    bursts.STORM,
    stalls.STALLED,
    departed.EXPIRED,
    departed.MAX_POLL,
    bursts.FLAPPING,
    stalls.PASSED,
    epochs.HELD,
    epochs.UNSETTLED,
    commits.REWIND,
    commits.ZOMBIE,
    retention.EXPIRY,
    shares.POISON,
    shares.NEAR,
    shares.LOCKS,
    shares.STANDS,
    departed.STATIC,
    bursts.DEPLOYMENT,
    epochs.LATE,
    stalls.EMPTY,
    commits.RESET,
    assignments.NEEDLESS,
    assignments.UNBALANCED,
)

# The rules that say which member did what.
MEMBER_RULES = (
    departed.EXPIRED, departed.MAX_POLL, bursts.FLAPPING, departed.STATIC, epochs.HELD,
    shares.LOCKS,
)  # fmt: skip


def group_findings(rows: GroupRows, now_ms: int, retention_ms: int) -> list[Finding]:
    """Return the findings of one group.

    Args:
        rows: its rows.
        now_ms: the end of the records of all groups, see `across.end_of_records`.
        retention_ms: how long the offsets of a group without members are kept.
    """
    group = Group(rows, now_ms, retention_ms)
    found = [finding for find in _FIND for finding in find(group)]
    return without_explained(found)


def findings_by_group(
    tables: Mapping[str, pa.Table], now_ms: int, retention_ms: int
) -> Iterator[Finding]:
    """Yield the findings of some groups.

    Args:
        tables: all rows of these groups, by the names of the fields of `GroupRows`.
        now_ms, retention_ms: see `group_findings`.
    """
    slices = {name: _by_group(tables[name]) for name in GroupRows._fields[1:]}
    nothing = {name: tables[name].slice(0, 0) for name in slices}
    for group_id in sorted({group_id for groups in slices.values() for group_id in groups}):
        rows = {name: groups.get(group_id, nothing[name]) for name, groups in slices.items()}
        yield from group_findings(GroupRows(group_id, **rows), now_ms, retention_ms)


def _by_group(table: pa.Table) -> dict[str, pa.Table]:
    """Return the rows of each group, without copying them more than once."""
    rows = table.sort_by("group_id").combine_chunks()
    found, first = {}, 0
    # value_counts keeps the order in which values first occur, which is that of the sorted rows.
    for count in pc.value_counts(rows.column("group_id")).to_pylist():
        found[count["values"]] = rows.slice(first, count["counts"])
        first += count["counts"]
    return found
