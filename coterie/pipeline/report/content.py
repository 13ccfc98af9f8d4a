"""What the report is about: the gold tables of an output directory, by group.

Read with pyarrow, without Spark. Times are epoch milliseconds here. Rows are dictionaries with the
columns of `tables.py`; a table that was never written is empty.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

Row = dict[str, Any]

GROUP_TABLES = (
    "rebalances",
    "partition_moves",
    "ownership",
    "member_sessions",
    "commit_velocity_1m",
    "lag_1m",
    "anomalies",
)


class GroupContent(NamedTuple):
    """One group's rows.

    Attributes:
        group_id: whose.
        tables: of `GROUP_TABLES`, each in order of time.
    """

    group_id: str
    tables: Mapping[str, list[Row]]

    @property
    def rebalances(self) -> list[Row]:
        """By their ends."""
        return self.tables["rebalances"]

    @property
    def unowned_ms(self) -> int:
        """The time partitions were without an owner in rebalances, as far as it is known."""
        return sum(row["unowned_partition_ms"] or 0 for row in self.rebalances)

    @property
    def moved(self) -> int:
        """Partitions that changed their owner."""
        return sum(row["moved"] for row in self.rebalances)

    @property
    def excess_moved(self) -> int:
        """Moves that a better assignment would have saved."""
        return sum(row["excess_moved"] or 0 for row in self.rebalances)

    def instigators(self) -> list[tuple[str, str, int, int]]:
        """(member key, most frequent cause, rebalances, unowned ms) of each, the worst first."""
        found: dict[str, list[Row]] = {}
        for row in self.rebalances:
            found.setdefault(row["trigger_member_key"] or "(not known)", []).append(row)
        ranked = [
            (
                key,
                _most_frequent(row["trigger"] for row in rows),
                len(rows),
                sum(row["unowned_partition_ms"] or 0 for row in rows),
            )
            for key, rows in found.items()
        ]
        return sorted(ranked, key=lambda each: (-each[2], -each[3], each[0]))

    def span_ms(self) -> tuple[int, int] | None:
        """The first and the last moment that any row is about."""
        times = [
            value
            for rows in self.tables.values()
            for row in rows
            for name, value in row.items()
            if name.endswith("_ts") and value is not None
        ]
        return (min(times), max(times)) if times else None


class Content(NamedTuple):
    """Everything the page shows."""

    inputs: list[str]
    groups: list[GroupContent]
    health: list[Row]
    quarantined: int

    def span_ms(self) -> tuple[int, int] | None:
        """The first and the last moment of all groups."""
        spans = [span for group in self.groups if (span := group.span_ms()) is not None]
        return (min(each[0] for each in spans), max(each[1] for each in spans)) if spans else None


def content_of(
    tables: Mapping[str, Iterable[Row]], inputs: Iterable[str], quarantined: int = 0
) -> Content:
    """Sort the rows of the gold tables by group.

    Args:
        tables: rows by table, with times as datetime or epoch milliseconds.
        inputs: where they come from.
        quarantined: damaged places that were left out.
    """
    groups: dict[str, dict[str, list[Row]]] = {}
    for name in GROUP_TABLES:
        for row in tables.get(name, ()):
            rows = groups.setdefault(row["group_id"], {each: [] for each in GROUP_TABLES})
            rows[name].append(_in_ms(row))
    for rows in groups.values():
        for name, found in rows.items():
            found.sort(key=lambda row, name=name: _order(name, row))  # type: ignore[misc]
    contents = [GroupContent(group_id, rows) for group_id, rows in groups.items()]
    contents.sort(key=lambda group: (-group.unowned_ms, -len(group.rebalances), group.group_id))
    health = [_in_ms(row) for row in tables.get("log_health", ())]
    return Content(sorted(inputs), contents, health, quarantined)


_ORDERED_BY = {
    "rebalances": "completed_ts",
    "partition_moves": "at_ts",
    "ownership": "from_ts",
    "member_sessions": "first_seen_ts",
    "commit_velocity_1m": "window_start_ts",
    "lag_1m": "window_start_ts",
    "anomalies": "window_start_ts",
}


def _order(table: str, row: Row) -> int:
    at_ms = row.get(_ORDERED_BY[table])
    if at_ms is None:
        at_ms = row.get("started_ts")
    return 0 if at_ms is None else at_ms


def _in_ms(row: Row) -> Row:
    return {
        name: round(value.timestamp() * 1000) if isinstance(value, datetime) else value
        for name, value in row.items()
    }


def _most_frequent(texts: Iterable[str]) -> str:
    counts: dict[str, int] = {}
    for text in texts:
        counts[text] = counts.get(text, 0) + 1
    return max(counts, key=lambda text: (counts[text], text))
