"""Groups whose records could not be made a history."""

from collections.abc import Iterable, Iterator

from coterie.pipeline.findings.finding import WARNING, Finding, Rule
from coterie.pipeline.findings.group import Row

UNREADABLE = Rule(
    "unreadable_history", WARNING, "the records of a group contradict each other or are damaged"
)


def unreadable_histories(rows: Iterable[Row], now_ms: int) -> Iterator[Finding]:
    """Return a finding for each group without a history [pipeline/unreadable].

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
