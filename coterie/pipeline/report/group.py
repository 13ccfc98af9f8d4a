"""A group's section of the page: ownership over time, lag and progress, who caused rebalances, the
rebalances, the members, the partitions.
"""

from typing import NamedTuple

from coterie.pipeline.report.charts import lag_chart, progress_chart
from coterie.pipeline.report.content import GroupContent, Listing, Place, Row
from coterie.pipeline.report.gantt import MAX_LANES, close_up, costliest, gantt, member_colours
from coterie.pipeline.report.words import known

# The rows that a group's tables show: the newest, or the worst.
MAX_REBALANCES = 400
MAX_INSTIGATORS = 8
MAX_KEYS = 24
MAX_MEMBERS = 100
MAX_PARTITIONS = 100


class PartitionRow(NamedTuple):
    """A partition with its newest lag and its moves.

    Attributes:
        name: topic and number.
        committed_offset, log_end_offset, lag, time_lag_ms: None where unknown.
        is_stalled: there is a lag, and the group makes no progress.
        moves: how often the partition changed its owner.
        gap_ms: how long it had no owner in those moves; None where unknown.
    """

    name: str
    committed_offset: int | None
    log_end_offset: int | None
    lag: int | None
    time_lag_ms: int | None
    is_stalled: bool
    moves: int
    gap_ms: int | None


class GroupSection(NamedTuple):
    """The values of the template `group.html`.

    Attributes:
        group: its rows.
        ownership, close_up: SVG; empty where there is nothing to draw.
        lanes_left_out: partitions that `ownership` does not draw.
        colours: members with their colours.
        worst: the rebalance of `close_up`.
        charts: SVG of lag and progress.
        instigators, rebalances, members, partitions: the rows of the tables.
    """

    group: GroupContent
    ownership: str
    lanes_left_out: int
    colours: Listing
    worst: Row | None
    close_up: str
    charts: list[str]
    instigators: Listing
    rebalances: Listing
    members: Listing
    partitions: Listing


def group_section(group: GroupContent, span_ms: tuple[int, int]) -> GroupSection:
    """Collect everything about one group.

    Args:
        group: its rows.
        span_ms: the time to draw.
    """
    owned = group.tables["ownership"]
    lanes = {(row["topic"], row["partition"]) for row in owned}
    colours = list(member_colours(owned).items())
    worst = costliest(group) if owned and len(group.rebalances) > 1 else None
    charts = []
    if group.tables["progress"] or group.tables["lag"]:
        charts = [lag_chart(group, span_ms), progress_chart(group, span_ms)]
    instigators = group.instigators()
    return GroupSection(
        group,
        gantt(group, span_ms) if owned else "",
        max(0, len(lanes) - MAX_LANES),
        Listing(colours[:MAX_KEYS], len(colours)),
        worst,
        "" if worst is None else close_up(group, worst),
        charts,
        Listing(instigators[:MAX_INSTIGATORS], len(instigators)),
        _newest(group.rebalances, MAX_REBALANCES),
        _newest(group.tables["member_sessions"], MAX_MEMBERS),
        _partitions(group),
    )


def anchor(group_id: str) -> str:
    """Return the name of a group's place on the page, which is safe for any group id."""
    return "group-" + group_id.encode().hex()


def members_changed(row: Row) -> str:
    """Return the number of members after a rebalance, and how many joined, left or came back."""
    parts = [
        f"{sign}{len(row[column])}"
        for sign, column in (("+", "joined"), ("-", "left"), ("=", "replaced"))
        if row[column]
    ]
    return " ".join([known(row["members"]), *([f"({' '.join(parts)})"] if parts else [])])


def _newest(rows: list[Row], most: int) -> Listing:
    return Listing(rows[: -most - 1 : -1], len(rows))


def _partitions(group: GroupContent) -> Listing:
    """Return the partitions, those with the largest lag first."""
    moves = {_place(row): row for row in group.tables["partition_moves"]}
    lags = {_place(row): row for row in group.tables["partition_lag"]}
    rows = []
    for topic, partition in sorted({*moves, *lags}):
        lag = lags.get((topic, partition), {})
        moved = moves.get((topic, partition), {})
        rows.append(
            PartitionRow(
                f"{topic}-{partition}",
                lag.get("committed_offset"),
                lag.get("log_end_offset"),
                lag.get("lag"),
                lag.get("time_lag_ms"),
                bool(lag.get("stalled")),
                moved.get("moves", 0),
                moved.get("gap_ms"),
            )
        )
    rows.sort(key=lambda row: (not row.is_stalled, -(row.lag or 0), -row.moves))
    return Listing(rows[:MAX_PARTITIONS], len(rows))


def _place(row: Row) -> Place:
    return row["topic"], row["partition"]
