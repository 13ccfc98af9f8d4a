"""What the report is about: the gold tables of an output directory, by group.

Times are epoch milliseconds here. Rows are dictionaries with the columns of `tables.py`, or fewer;
a table that was never written is empty. What could be millions of rows comes summed up or cut to
its newest part (`reading.py`), so that a page is made in seconds whatever was recorded.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

Row = dict[str, Any]

# By table the column that tells the order of its rows.
GROUP_TABLES = {
    "rebalances": "completed_ts",
    "ownership": "from_ts",
    "member_sessions": "first_seen_ts",
    # Summed up over the partitions: progress and lag of a minute.
    "progress": "window_start_ts",
    "lag": "window_start_ts",
    # The newest row of lag_1m of each partition, and how often each has moved.
    "partition_lag": "topic",
    "partition_moves": "topic",
    "anomalies": "window_start_ts",
}
# Where moments stand that the drawings must reach to.
_TIMES = {
    "rebalances": ("started_ts", "completed_ts"),
    "ownership": ("from_ts", "to_ts"),
    "member_sessions": ("first_seen_ts", "last_seen_ts"),
    "progress": ("window_start_ts",),
    "lag": ("window_start_ts",),
}
UNKNOWN_MEMBER = "(not known)"


class Instigator(NamedTuple):
    """Whose doing rebalances were.

    Attributes:
        member_key: who.
        cause: the most frequent one.
        rebalances: how many.
        unowned_ms: the time without owners that they cost, summed up over the partitions.
    """

    member_key: str
    cause: str
    rebalances: int
    unowned_ms: int


class GroupContent(NamedTuple):
    """One group's rows.

    Attributes:
        group_id: whose.
        tables: of `GROUP_TABLES`, each in its order.
        span_ms: the first and the last moment that any row is about; None without any.
    """

    group_id: str
    tables: Mapping[str, list[Row]]
    span_ms: tuple[int, int] | None

    @property
    def rebalances(self) -> list[Row]:
        """By their ends."""
        return self.tables["rebalances"]

    @property
    def unowned_ms(self) -> int:
        """The time partitions were without an owner in rebalances, as far as it is known."""
        return sum(row["unowned_partition_ms"] or 0 for row in self.rebalances)

    @property
    def is_unowned_known(self) -> bool:
        """Whether that is known of any rebalance at all."""
        return any(row["unowned_partition_ms"] is not None for row in self.rebalances)

    @property
    def moved(self) -> int:
        """Partitions that changed their owner."""
        return sum(row["moved"] or 0 for row in self.rebalances)

    @property
    def excess_moved(self) -> int:
        """Moves that a better assignment would have saved."""
        return sum(row["excess_moved"] or 0 for row in self.rebalances)

    def instigators(self) -> list[Instigator]:
        """Who caused rebalances, the worst first."""
        found: dict[str, list[Row]] = {}
        for row in self.rebalances:
            found.setdefault(row["trigger_member_key"] or UNKNOWN_MEMBER, []).append(row)
        ranked = [
            Instigator(
                key,
                _most_frequent(row["trigger"] or "" for row in rows),
                len(rows),
                sum(row["unowned_partition_ms"] or 0 for row in rows),
            )
            for key, rows in found.items()
        ]
        return sorted(ranked, key=lambda each: (-each.rebalances, -each.unowned_ms, each[0]))


class Content(NamedTuple):
    """Everything the page shows.

    Attributes:
        inputs: what was read.
        groups: the worst first, by what their rebalances cost.
        health: rows of `log_health`.
        quarantined: damaged places that were left out.
    """

    inputs: list[str]
    groups: list[GroupContent]
    health: list[Row]
    quarantined: int

    def span_ms(self) -> tuple[int, int] | None:
        """The first and the last moment of all groups."""
        spans = [group.span_ms for group in self.groups if group.span_ms is not None]
        return (min(each[0] for each in spans), max(each[1] for each in spans)) if spans else None


def content_of(
    tables: Mapping[str, Iterable[Row]],
    inputs: Iterable[str],
    health: Iterable[Row] = (),
    quarantined: int = 0,
) -> Content:
    """Sort rows by group.

    Args:
        tables: rows by name in `GROUP_TABLES`, with times in epoch milliseconds.
        inputs: where they come from.
        health: rows of `log_health`.
        quarantined: damaged places that were left out.
    """
    groups: dict[str, dict[str, list[Row]]] = {}
    for name in GROUP_TABLES:
        for row in tables.get(name, ()):
            rows = groups.setdefault(row["group_id"], {each: [] for each in GROUP_TABLES})
            rows[name].append(row)
    contents = [group_content(group_id, rows) for group_id, rows in groups.items()]
    contents.sort(key=lambda group: (-group.unowned_ms, -len(group.rebalances), group.group_id))
    return Content(sorted(inputs), contents, list(health), quarantined)


def group_content(group_id: str, tables: Mapping[str, list[Row]]) -> GroupContent:
    """One group's rows, put in order; tables that are missing are empty."""
    ordered = {
        name: sorted(tables.get(name, ()), key=lambda row: _place(name, row))
        for name in GROUP_TABLES
    }
    return GroupContent(group_id, ordered, _span_ms(ordered))


def _span_ms(tables: Mapping[str, list[Row]]) -> tuple[int, int] | None:
    times = [
        at_ms
        for name, columns in _TIMES.items()
        for column in columns
        for row in tables[name]
        if (at_ms := row[column]) is not None
    ]
    return (min(times), max(times)) if times else None


def _place(table: str, row: Row) -> tuple[Any, ...]:
    column = GROUP_TABLES[table]
    if column == "topic":
        return (row["topic"], row["partition"])
    at_ms = row.get(column)
    if at_ms is None:
        at_ms = row.get("started_ts")
    # Generations of the same millisecond have their numbers.
    return (0 if at_ms is None else at_ms, row.get("to_generation") or 0)


def _most_frequent(texts: Iterable[str]) -> str:
    counts: dict[str, int] = {}
    for text in texts:
        counts[text] = counts.get(text, 0) + 1
    return max(counts, key=lambda text: (counts[text], text))
