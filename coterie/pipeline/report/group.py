"""A group's part of the page: ownership over time, lag and progress, whose doing, its rebalances,
its members, its partitions.
"""

from html import escape

from coterie.pipeline.report.charts import lag_chart, progress_chart
from coterie.pipeline.report.content import GroupContent, Row
from coterie.pipeline.report.gantt import close_up, costliest, gantt, member_colours
from coterie.pipeline.report.grid import more, table
from coterie.pipeline.report.svg import duration, moment
from coterie.pipeline.report.words import cut, grouped, known, name, plain

# Rows of a group's tables; the newest, or the worst.
MAX_REBALANCES = 400
MAX_INSTIGATORS = 8
MAX_KEYS = 24
MAX_MEMBERS = 100
MAX_PARTITIONS = 100

_HOW_TO_READ = (
    "<p class='note'>A lane is a partition, a bar its owner, a gap the time without one. Lines are"
    " rebalances, dashed where they only follow from the group's log. Rest the pointer on a line or"
    " bar for what it was.</p>"
)


def group_section(group: GroupContent, span_ms: tuple[int, int]) -> list[str]:
    """Everything about one group.

    Args:
        group: which.
        span_ms: the time that is drawn.
    """
    heading = name(group.group_id, 80) or "(empty name)"
    parts = [
        f"<section data-group='{escape(group.group_id, quote=True)}'>",
        f"<h2 id='{anchor(group.group_id)}'>{heading}</h2>",
    ]
    if group.tables["ownership"]:
        parts += _drawings(group, span_ms)
    if group.tables["progress"] or group.tables["lag"]:
        parts.append(
            f"<div class='charts'>{lag_chart(group, span_ms)}{progress_chart(group, span_ms)}</div>"
        )
    if group.rebalances:
        parts += [*_instigators(group), *_rebalances(group)]
    parts += [*_members(group), *_partitions(group)]
    return [*parts, "</section>"]


def anchor(group_id: str) -> str:
    """A group's place on the page; any id becomes a safe name."""
    return "group-" + group_id.encode().hex()


def link(group_id: str) -> str:
    """A link to a group's place."""
    return f"<a href='#{anchor(group_id)}'>{name(group_id) or '(empty name)'}</a>"


def _drawings(group: GroupContent, span_ms: tuple[int, int]) -> list[str]:
    colours = member_colours(group.tables["ownership"])
    keys = "".join(
        f"<span class='key'><i style='background:{colour}'></i>{name(key, 40)}</span>"
        for key, colour in list(colours.items())[:MAX_KEYS]
    )
    parts = [gantt(group, span_ms), f"<p class='note'>{keys}</p>"]
    parts += [more(len(colours), MAX_KEYS, "members"), _HOW_TO_READ]
    worst = costliest(group)
    if worst is not None and len(group.rebalances) > 1:
        told = (
            f"{moment(worst['started_ts'])}, generation {known(worst['to_generation'])}:"
            f" {plain(worst['trigger'])} {name(worst['trigger_member_key'])}, without owner"
            f" {duration(worst['unowned_partition_ms'])} over all partitions"
        )
        parts += [
            f"<h3>The costliest rebalance</h3><p class='note'>{told}</p>",
            close_up(group, worst),
        ]
    return parts


def _instigators(group: GroupContent) -> list[str]:
    ranked = group.instigators()
    cells = [
        (
            name(each.member_key),
            plain(each.cause),
            grouped(each.rebalances),
            escape(duration(each.unowned_ms) if group.is_unowned_known else "?"),
        )
        for each in ranked[:MAX_INSTIGATORS]
    ]
    heads = ("member", "mostly by", "#rebalances", "#without owner")
    return [
        "<h3>Whose doing</h3>",
        table(f"Who caused rebalances of {cut(group.group_id)}", heads, cells),
        more(len(ranked), MAX_INSTIGATORS, "members"),
    ]


def _rebalances(group: GroupContent) -> list[str]:
    cells = []
    for row in reversed(group.rebalances[-MAX_REBALANCES:]):
        reason = f": {name(row['trigger_reason'])}" if row["trigger_reason"] else ""
        started = row["started_ts"] if row["started_ts"] is not None else row["completed_ts"]
        cells.append(
            (
                escape(moment(started)),
                f"{known(row['from_generation'])} → {known(row['to_generation'])}",
                f"{plain(row['trigger'])}{reason}",
                name(row["trigger_member_key"]),
                _took(row["duration_ms"]),
                _took(row["join_ms"]),
                _took(row["sync_ms"]),
                _took(row["unowned_partition_ms"]),
                escape(_changes(row)),
                f"{known(row['moved'])} ({known(row['moved_min'])})",
                plain(row["evidence"]),
            )
        )
    heads = (
        "when",
        "generation",
        "why",
        "who",
        "#took",
        "#join",
        "#sync",
        "#without owner",
        "members",
        "#moved (needed)",
        "known from",
    )
    return [
        "<h3>Rebalances</h3>",
        table(f"Rebalances of {cut(group.group_id)}, newest first", heads, cells),
        more(len(group.rebalances), MAX_REBALANCES, "rebalances, older,"),
    ]


def _took(duration_ms: int | None) -> str:
    return "?" if duration_ms is None else escape(duration(duration_ms))


def _changes(row: Row) -> str:
    parts = [
        f"{sign}{len(row[column])}"
        for sign, column in (("+", "joined"), ("-", "left"), ("=", "replaced"))
        if row[column]
    ]
    return " ".join([known(row["members"]), *([f"({' '.join(parts)})"] if parts else [])])


def _members(group: GroupContent) -> list[str]:
    rows = group.tables["member_sessions"]
    if not rows:
        return []
    cells = [
        (
            name(row["member_key"]),
            name(row["client_id"], 32),
            name((row["client_host"] or "").removeprefix("/"), 32),
            escape(moment(row["first_seen_ts"])),
            "still there" if row["last_seen_ts"] is None else escape(moment(row["last_seen_ts"])),
            plain(row["exit_kind"]),
            known(row["rebalances_caused"]),
        )
        for row in reversed(rows[-MAX_MEMBERS:])
    ]
    heads = ("member", "client", "host", "came", "went", "how", "#rebalances caused")
    return [
        "<h3>Members</h3>",
        table(f"Members of {cut(group.group_id)}, newest first", heads, cells),
        more(len(rows), MAX_MEMBERS, "members, older,"),
    ]


def _partitions(group: GroupContent) -> list[str]:
    """The partitions by their lag, with how often they moved."""
    moves = {_place(row): row for row in group.tables["partition_moves"]}
    lags = {_place(row): row for row in group.tables["partition_lag"]}
    places = sorted({*moves, *lags}, key=lambda place: _worst_first(place, lags, moves))
    if not places:
        return []
    cells = []
    for topic, partition in places[:MAX_PARTITIONS]:
        lag = lags.get((topic, partition), {})
        moved = moves.get((topic, partition), {})
        stalled = "<span class='critical'>stands still</span>" if lag.get("stalled") else ""
        cells.append(
            (
                name(f"{topic}-{partition}"),
                known(lag.get("committed_offset")),
                known(lag.get("log_end_offset")),
                known(lag.get("lag")),
                _took(lag.get("time_lag_ms")),
                stalled,
                grouped(moved.get("moves", 0)),
                _took(moved.get("gap_ms")) if moved else "",
            )
        )
    heads = (
        "partition",
        "#committed",
        "#end of log",
        "#lag",
        "#behind by",
        "",
        "#moved",
        "#without owner then",
    )
    return [
        "<h3>Partitions</h3>",
        table(f"Partitions of {cut(group.group_id)}, by lag", heads, cells),
        more(len(places), MAX_PARTITIONS, "partitions"),
    ]


Place = tuple[str, int]


def _place(row: Row) -> Place:
    return row["topic"], row["partition"]


def _worst_first(
    place: Place, lags: dict[Place, Row], moves: dict[Place, Row]
) -> tuple[bool, int, int, Place]:
    lag = lags.get(place, {})
    return (
        not lag.get("stalled"),
        -(lag.get("lag") or 0),
        -moves.get(place, {}).get("moves", 0),
        place,
    )
