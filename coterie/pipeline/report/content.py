"""The content of the report: the gold tables of an output directory, by group [report/ranking].

Times are epoch milliseconds here. Rows are dictionaries with the columns of `tables.py`, or fewer;
a table that was never written is empty. `reading.py` sums tables that can have millions of rows or
cuts them to their newest rows, so a page takes seconds whatever was recorded.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from coterie.client.names import natural_order, short_member
from coterie.pipeline.findings.finding import most_frequent
from coterie.pipeline.timeline.model import STREAMS, identity_of

Row = dict[str, Any]
# A topic and a partition number.
Place = tuple[str, int]

# The column that orders the rows of each table.
GROUP_TABLES = {
    "rebalances": "completed_ts",
    "ownership": "from_ts",
    "member_sessions": "first_seen_ts",
    # Progress and lag of a minute, summed over the partitions.
    "progress": "window_start_ts",
    "lag": "window_start_ts",
    # The newest row of lag_1m of each partition, and how often each partition has moved.
    "partition_lag": "topic",
    "partition_moves": "topic",
    "anomalies": "window_start_ts",
    # Of KIP-848 and streams groups: the rises of the epoch, and the handovers that took longest.
    "epoch_bumps": "at_ts",
    "epoch_handovers": "asked_ts",
    # Of share groups: their partitions, and the newest records and deliveries that failed.
    "share_partitions": "topic",
    "poison_records": "last_ts",
    "failed_deliveries": "at_ts",
}
# The columns whose times the drawings must cover.
_TIMES = {
    "rebalances": ("started_ts", "completed_ts"),
    "ownership": ("from_ts", "to_ts"),
    "member_sessions": ("first_seen_ts", "last_seen_ts"),
}
# The tables with a row for each minute.
_MINUTES = ("progress", "lag")
_MINUTE_MS = 60_000
_SPANNED = (*_TIMES, *_MINUTES)
UNKNOWN_MEMBER = "(unknown)"


class Instigator(NamedTuple):
    """A client that caused rebalances [pipeline/member-identity].

    Attributes:
        client: the instance id, or the client id and the host.
        members: under how many member ids.
        cause: the most frequent cause.
        rebalances: how many it caused.
        unowned: the time without owner that they cost.
    """

    client: str
    members: int
    cause: str
    rebalances: int
    unowned: "Unowned"


class Unowned(NamedTuple):
    """Time without owner, summed over partitions and rebalances.

    Attributes:
        ms: the sum of what is known; None if nothing is known, or nothing but 0.
        is_complete: whether it is known of all rebalances.
    """

    ms: int | None
    is_complete: bool

    @classmethod
    def of(cls, rebalances: Iterable[Row]) -> "Unowned":
        """Sum the time without owner in some rebalances."""
        found = [row["unowned_partition_ms"] for row in rebalances]
        known = [ms for ms in found if ms is not None]
        is_complete = len(known) == len(found)
        return cls(sum(known) if any(known) or is_complete else None, is_complete)


class GroupContent(NamedTuple):
    """One group's rows.

    Attributes:
        group_id: the group.
        tables: the rows by name in `GROUP_TABLES`, in order.
        span_ms: the first and the last time in any row; None without rows.
    """

    group_id: str
    tables: Mapping[str, list[Row]]
    span_ms: tuple[int, int] | None

    @property
    def rebalances(self) -> list[Row]:
        """Its rebalances, by the time at which they ended."""
        return self.tables["rebalances"]

    @property
    def has_tasks(self) -> bool:
        """Whether it is a streams group, whose members are given tasks [pipeline/streams-tasks]."""
        return self.is_of(STREAMS)

    def is_of(self, group_type: str) -> bool:
        """Return whether it has been a group of a type."""
        # An earlier version had no column for it.
        return any(row.get("group_type") == group_type for row in self.rebalances)

    @property
    def unowned(self) -> Unowned:
        """The time without owner in its rebalances."""
        return Unowned.of(self.rebalances)

    @property
    def moved(self) -> int:
        """How many partitions changed their owner."""
        return sum(row["moved"] or 0 for row in self.rebalances)

    @property
    def excess_moved(self) -> int:
        """How many moves were not needed for a balanced assignment."""
        return sum(row["excess_moved"] or 0 for row in self.rebalances)

    def members(self) -> dict[str, str]:
        """Return the short names of the members that had a session, by member key."""
        return {
            row["member_key"]: short_member(row["member_key"], row["member_id"], row["client_id"])
            for row in self.tables["member_sessions"]
        }

    def instigators(self) -> list[Instigator]:
        """Return the clients that caused rebalances, the most frequent first."""
        found: dict[str, list[Row]] = {}
        for row in self.rebalances:
            found.setdefault(_client(row), []).append(row)
        ranked = [
            Instigator(
                client,
                len({row.get("trigger_member_key") for row in rows} - {None}),
                most_frequent(row["trigger"] or "" for row in rows)[0],
                len(rows),
                Unowned.of(rows),
            )
            for client, rows in found.items()
        ]
        return sorted(
            ranked,
            key=lambda each: (
                -each.rebalances,
                -(each.unowned.ms or 0),
                natural_order(each.client),
            ),
        )


def _client(row: Row) -> str:
    """Return who caused a rebalance [pipeline/member-identity]."""
    columns = "member_key", "member_id", "client_id", "client_host"
    key, *others = (row.get(f"trigger_{column}") for column in columns)
    return str(identity_of(key, *others) or key or UNKNOWN_MEMBER)


class Content(NamedTuple):
    """Everything the page shows.

    Attributes:
        inputs: the inputs that were read.
        groups: the group whose rebalances cost most is first.
        health: rows of `log_health`.
        quarantined: the number of damaged places that were skipped.
        across: findings that are about several groups.
    """

    inputs: list[str]
    groups: list[GroupContent]
    health: list[Row]
    quarantined: int
    across: Sequence[Row] = ()

    def span_ms(self) -> tuple[int, int] | None:
        """Return the first and the last time of all groups."""
        tables = [group.tables for group in self.groups]
        return _span_ms({name: [row for each in tables for row in each[name]] for name in _SPANNED})


def content_of(
    tables: Mapping[str, Iterable[Row]],
    inputs: Iterable[str],
    health: Iterable[Row] = (),
    quarantined: int = 0,
) -> Content:
    """Sort rows by group.

    Args:
        tables: rows by name in `GROUP_TABLES`, with times in epoch milliseconds.
        inputs: the inputs that they come from.
        health: rows of `log_health`.
        quarantined: the number of damaged places that were skipped.
    """
    groups: dict[str, dict[str, list[Row]]] = {}
    across = []
    for name in GROUP_TABLES:
        for row in tables.get(name, ()):
            if row["group_id"] is None:
                across.append(row)
                continue
            rows = groups.setdefault(row["group_id"], {each: [] for each in GROUP_TABLES})
            rows[name].append(row)
    contents = [group_content(group_id, rows) for group_id, rows in groups.items()]
    contents.sort(
        key=lambda group: (
            -(group.unowned.ms or 0),
            -len(group.rebalances),
            natural_order(group.group_id),
        )
    )
    return Content(sorted(inputs), contents, list(health), quarantined, across)


def group_content(group_id: str, tables: Mapping[str, list[Row]]) -> GroupContent:
    """Put one group's rows in order; a table that is missing is empty."""
    ordered = {
        name: sorted(tables.get(name, ()), key=lambda row: _place(name, row))
        for name in GROUP_TABLES
    }
    return GroupContent(group_id, ordered, _span_ms(ordered))


def _span_ms(tables: Mapping[str, list[Row]]) -> tuple[int, int] | None:
    """Return the first and the last time in rows of `_SPANNED`."""
    times = [
        at_ms
        for name, columns in _TIMES.items()
        for column in columns
        for row in tables[name]
        if (at_ms := row[column]) is not None
    ]
    minutes = [row["window_start_ts"] for name in _MINUTES for row in tables[name]]
    # A minute begins before its first commit. If another event is in it, that is the beginning.
    first = min(times, default=None)
    times += [each for each in minutes if first is None or not each <= first < each + _MINUTE_MS]
    return (min(times), max(times)) if times else None


def _place(table: str, row: Row) -> tuple[Any, ...]:
    column = GROUP_TABLES[table]
    if column == "topic":
        return (row["topic"], row["partition"])
    at_ms = row.get(column)
    if at_ms is None:
        at_ms = row.get("started_ts")
    # Generations that were completed in the same millisecond are ordered by their numbers.
    return (0 if at_ms is None else at_ms, row.get("to_generation") or 0)
