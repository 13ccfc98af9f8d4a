"""The data of the page: values that its script draws, in few bytes [report/page-data].

Times are milliseconds after the first event of all groups. A row is a list, in the order of the
columns that assets/data.js names. Members are numbers of the list `names` of their group. Names
that only the page shows are printable here, so the script never meets a control character.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from coterie.client.names import cut, printable, short_member
from coterie.pipeline.findings.finding import duration
from coterie.pipeline.report.content import Content, GroupContent, Place, Row, Unowned
from coterie.pipeline.report.lanes import in_lanes, place_text
from coterie.pipeline.report.series import Series, lag_series, progress_series
from coterie.pipeline.timeline.model import SHARE

# What the page has of one group: the newest, or the worst [report/limits].
MAX_REBALANCES = 1_000
MAX_MEMBERS = 500
MAX_PARTITIONS = 256
MAX_INSTIGATORS = 20
# The page has the details of this many groups; the list has all of them.
MAX_DETAILED_GROUPS = 500
MAX_FINDINGS = 500
MAX_SEGMENTS = 200
# The steps of all charts together, and those of one. More could not be distinguished on a screen.
_CHART_STEPS, _MOST_STEPS, _LEAST_STEPS = 60_000, 1_500, 100
_SENTENCE_LETTERS = 400
# A full name in a tip is cut here: a client may choose one of 32 KB.
_HINT_LETTERS = 500
# Severities from the worst to the least; others follow.
_SEVERITIES = ("critical", "warning", "info")

Json = dict[str, Any]


def page_data(content: Content) -> Json:
    """Return everything that the page shows."""
    span = content.span_ms()
    zero = 0 if span is None else span[0]
    detailed = content.groups[:MAX_DETAILED_GROUPS]
    steps = _CHART_STEPS // max(1, len(detailed))
    steps = max(_LEAST_STEPS, min(_MOST_STEPS, steps))
    return {
        "zero": zero,
        "span": None if span is None else [0, span[1] - zero],
        "inputs": [cut(each, 120) for each in content.inputs],
        "figures": _figures(content),
        "findings": _findings(content, zero),
        "groups": [
            _summary(group) | (_details(group, zero, steps) if number < len(detailed) else {})
            for number, group in enumerate(content.groups)
        ],
        "health": _health(content),
    }


def _figures(content: Content) -> list[list[int | str | None]]:
    rebalances = [row for group in content.groups for row in group.rebalances]
    unowned = Unowned.of(rebalances)
    at_least = "" if unowned.is_complete or unowned.ms is None else "≥ "
    figures: list[list[int | str | None]] = [
        [len(content.groups), "groups"],
        [len(rebalances), "rebalances"],
        [sum(row["evidence"] == "journal" for row in rebalances), "recorded in the journal"],
        [at_least + duration(unowned.ms), "time without owner"],
        [sum(group.moved for group in content.groups), f"{_units(content)} moved"],
        [sum(group.excess_moved for group in content.groups), "moved without need"],
        [content.quarantined, "damaged places skipped"],
    ]
    # A zero says nothing that the reader needs to know first; the number of groups is always there.
    return figures[:1] + [each for each in figures[1:] if each[0] not in (0, duration(0))]


def _units(content: Content) -> str:
    """Return what the members of the groups are given."""
    kinds = {group.has_tasks for group in content.groups if group.rebalances}
    names = {False: "partitions", True: "tasks"}
    return " and ".join(names[each] for each in sorted(kinds)) or names[False]


def _findings(content: Content, zero: int) -> Json:
    """Return the findings, in the order of their ranks [pipeline/ranking]."""
    ranks = {severity: rank for rank, severity in enumerate(_SEVERITIES)}

    def order(row: Row) -> tuple[float, ...]:
        # An earlier version wrote no ranks.
        return (
            row.get("rank") or 0,
            ranks.get(row["severity"], len(ranks)),
            -(row["window_start_ts"] or 0),
        )

    rows = [row for group in content.groups for row in group.tables["anomalies"]]
    rows += content.across
    rows.sort(key=order)
    members = {group.group_id: group.members() for group in content.groups}
    return {
        "total": len(rows),
        "rows": [
            [
                _text(row["severity"]),
                _text((row["rule"] or "").replace("_", " ")),
                None if row["group_id"] is None else _text(row["group_id"]),
                _name(row["subject"], members.get(row["group_id"], {})),
                _after(row["window_start_ts"], zero),
                _after(row["window_end_ts"], zero),
                _after(row.get("at_ts"), zero),
                cut(row["evidence"] or "", _SENTENCE_LETTERS),
                row.get("cost"),
                [_text(each) for each in row.get("groups") or ()],
                # An earlier version wrote neither silences nor the times of groups.
                *(
                    [_after(each, zero) for each in row.get(name) or ()]
                    for name in ("silent_from_ts", "silent_to_ts", "groups_at_ts")
                ),
            ]
            for row in rows[:MAX_FINDINGS]
        ],
    }


def _health(content: Content) -> Json:
    rows = sorted(
        content.health, key=lambda row: (-(row["quarantined"] or 0), -(row["bytes"] or 0))
    )
    return {
        "total": len(rows),
        "rows": [
            [
                f"{cut(row['input'] or '')} {row['log_partition']}",
                *(
                    row[column]
                    for column in (
                        "segment_base", "records", "keys", "duplicate_ratio", "tombstones",
                        "horizon_batches", "quarantined", "bytes",
                    )
                ),
            ]
            for row in rows[:MAX_SEGMENTS]
        ],
    }  # fmt: skip


def _summary(group: GroupContent) -> Json:
    """Return the group's line in the list of groups."""
    first = next(iter(group.instigators()), None)
    return {
        "id": _text(group.group_id),
        "count": len(group.rebalances),
        "unowned": list(group.unowned),
        "moved": group.moved,
        "excess": group.excess_moved,
        "by": None if first is None else [cut(first.client), first.rebalances, _text(first.cause)],
    }


def _details(group: GroupContent, zero: int, steps: int) -> Json:
    members = group.members()
    names = _Names(members)
    owned = group.tables["ownership"]
    placed = in_lanes(owned, are_shared=group.is_of(SHARE))
    lanes = sorted(placed)
    has_tasks = group.has_tasks
    span = group.span_ms
    charts = None
    if span is not None:
        charts = [
            _chart(lag_series(group, span, steps), zero),
            _chart(progress_series(group, span, steps), zero),
        ]
    return {
        "span": None if span is None else [span[0] - zero, span[1] - zero],
        "owned": _owned([placed[lane] for lane in lanes[:MAX_PARTITIONS]], names, zero),
        "lanes": [lane.text for lane in lanes[:MAX_PARTITIONS]],
        "laneCount": len(lanes),
        "tasks": has_tasks,
        "caused": [
            [cut(each.client), each.members, _text(each.cause), each.rebalances, *each.unowned]
            for each in group.instigators()[:MAX_INSTIGATORS]
        ],
        "rebalances": [
            _rebalance(row, names, zero) for row in _newest(group.rebalances, MAX_REBALANCES)
        ],
        "members": [
            _member(row, names, zero)
            for row in _newest(group.tables["member_sessions"], MAX_MEMBERS)
        ],
        "memberCount": len(group.tables["member_sessions"]),
        "partitions": _partitions(group),
        "taskMoves": _task_moves(group),
        "bumps": [_bump(row, names, zero) for row in reversed(group.tables["epoch_bumps"])],
        "handovers": [
            _handover(row, names, zero, has_tasks=has_tasks)
            for row in group.tables["epoch_handovers"]
        ],
        "shared": [_shared(row, zero) for row in group.tables["share_partitions"]],
        "poison": [_poison(row, zero) for row in reversed(group.tables["poison_records"])],
        "failed": [
            _failed(row, names, zero) for row in reversed(group.tables["failed_deliveries"])
        ],
        "charts": charts,
        "names": names.names,
    }


class _Names:
    """The members of a group by number, with their short names and, if they differ, full ones."""

    def __init__(self, short: Mapping[str, str]) -> None:
        self.names: list[list[str]] = []
        self._short = short
        self._numbers: dict[str, int] = {}

    def number(self, member_key: str | None) -> int | None:
        """Return the number of a member."""
        if member_key is None:
            return None
        number = self._numbers.setdefault(member_key, len(self.names))
        if number == len(self.names):
            self.names.append(_name(member_key, self._short) or [""])
        return number

    def numbers(self, member_keys: Iterable[str] | None) -> list[int | None]:
        """Return the numbers of several members."""
        return [self.number(each) for each in member_keys or ()]


def _owned(lanes: list[list[Row]], names: _Names, zero: int) -> list[list[Any]]:
    """Return member, generation, beginning, length and lanes of what was owned together.

    Lanes are the numbers of the first lane and of the lanes that follow it, again and again.

    Args:
        lanes: the rows of each lane.
        names: the members.
        zero: the first time.
    """
    together: dict[tuple[Any, ...], list[int]] = {}
    for number, rows in enumerate(lanes):
        for row in rows:
            key = row["member_key"], row["generation"], row["from_ts"], row["to_ts"]
            together.setdefault(key, []).append(number)
    return [
        [
            names.number(member),
            generation,
            begin - zero,
            None if end is None else end - begin,
            *_runs(sorted(found)),
        ]
        for (member, generation, begin, end), found in together.items()
    ]


def _runs(numbers: list[int]) -> list[int]:
    """Return first number and length of each run of consecutive numbers."""
    runs: list[int] = []
    for number in numbers:
        if runs and number == runs[-2] + runs[-1]:
            runs[-1] += 1
        else:
            runs += (number, 1)
    return runs


def _rebalance(row: Row, names: _Names, zero: int) -> list[Any]:
    reason = row["trigger_reason"]
    return [
        _after(row["started_ts"], zero),
        _after(row["completed_ts"], zero),
        row["from_generation"],
        row["to_generation"],
        _text(row["trigger"]),
        None if reason is None else cut(reason, 80),
        names.number(row["trigger_member_key"]),
        row["duration_ms"],
        row["join_ms"],
        row["sync_ms"],
        row["unowned_partition_ms"],
        row["members"],
        names.numbers(row["joined"]),
        names.numbers(row["left"]),
        names.numbers(row["replaced"]),
        row["moved"],
        row["moved_min"],
        _text(row["evidence"]),
        # An earlier version had no column for it.
        _text(row.get("group_type")),
    ]


def _bump(row: Row, names: _Names, zero: int) -> list[Any]:
    target_ms = row["target_ts"]
    # A record is stamped when it is appended, up to some milliseconds after the target in it.
    after_ms = None if target_ms is None else max(0, target_ms - row["at_ts"])
    return [
        row["epoch"],
        row["at_ts"] - zero,
        _text(row["cause"]),
        names.number(row["member_key"]),
        row["members"],
        after_ms,
        row["moved_partitions"],
        row["stable_ms"],
        _text(row["assignor"]),
        _text(row["evidence"]),
    ]


def _handover(row: Row, names: _Names, zero: int, *, has_tasks: bool) -> list[Any]:
    noticed_ms = row["noticed_ts"]
    return [
        place_text(_place(row), is_task=has_tasks),
        row["epoch"],
        row["asked_ts"] - zero,
        names.number(row["from_member_key"]),
        names.number(row["to_member_key"]),
        None if noticed_ms is None else noticed_ms - row["asked_ts"],
        row["give_up_ms"],
        row["take_over_ms"],
        _text(row["ended_by"]),
    ]


def _shared(row: Row, zero: int) -> list[Any]:
    return [
        place_text(_place(row)),
        row["start_offset"],
        _after(row["start_ts"], zero),
        _after(row["last_ts"], zero),
        *(
            row[name]
            for name in (
                "complete", "waiting", "most_deliveries", "accepted", "released", "timed_out",
                "given_up", "delivered_again",
            )
        ),
    ]  # fmt: skip


def _poison(row: Row, zero: int) -> list[Any]:
    return [
        place_text(_place(row)),
        row["record_offset"],
        row["delivery_count"],
        row["became"],
        _text(row["ended_by"]),
        _after(row["first_ts"], zero),
        _after(row["last_ts"], zero),
    ]


def _failed(row: Row, names: _Names, zero: int) -> list[Any]:
    return [
        _after(row["at_ts"], zero),
        place_text(_place(row)),
        row["first_offset"],
        row["last_offset"],
        row["became"],
        row["delivery_count"],
        _text(row["ended_by"]),
        names.number(row["member_id"]),
    ]


def _member(row: Row, names: _Names, zero: int) -> list[Any]:
    return [
        names.number(row["member_key"]),
        cut(row["client_id"] or "", 32),
        cut((row["client_host"] or "").removeprefix("/"), 32),
        _after(row["first_seen_ts"], zero),
        _after(row["last_seen_ts"], zero),
        _text(row.get("entry_kind")),
        _text(row["exit_kind"]),
        cut(row.get("exit_evidence") or "", 120),
        row["rebalances_caused"],
    ]


def _partitions(group: GroupContent) -> list[list[Any]]:
    """Return the partitions, those with the largest lag first; members own tasks or these."""
    moves = {} if group.has_tasks else _moves(group)
    lags = {_place(row): row for row in group.tables["partition_lag"]}
    rows = []
    for place in sorted({*moves, *lags}):
        lag, moved = lags.get(place, {}), moves.get(place, {})
        rows.append(
            [
                place_text(place),
                lag.get("committed_offset"),
                lag.get("log_end_offset"),
                lag.get("lag"),
                lag.get("time_lag_ms"),
                1 if lag.get("stalled") else 0,
                moved.get("moves", 0),
                moved.get("gap_ms") if moved else None,
            ]
        )
    rows.sort(key=lambda row: (-row[5], -(row[3] or 0), -row[6]))
    return rows[:MAX_PARTITIONS]


def _task_moves(group: GroupContent) -> list[list[Any]]:
    """Return the tasks of a streams group that have moved, those that moved most often first."""
    if not group.has_tasks:
        return []
    rows = [
        [place_text(place, is_task=True), row["moves"], row["gap_ms"]]
        for place, row in sorted(_moves(group).items())
    ]
    rows.sort(key=lambda row: -row[1])
    return rows[:MAX_PARTITIONS]


def _moves(group: GroupContent) -> dict[tuple[str, int], Row]:
    return {_place(row): row for row in group.tables["partition_moves"]}


def _chart(series: Series | None, zero: int) -> list[Any] | None:
    if series is None:
        return None
    values = [None if value is None else round(value, 1) for value in series.values]
    return [
        series.start_ms - zero,
        series.step_ms,
        [int(value) if value is not None and value == int(value) else value for value in values],
    ]


def _name(key: str | None, short: Mapping[str, str]) -> list[str] | None:
    """Return a short name and, if it differs, the full one."""
    if key is None:
        return None
    name = short.get(key) or short_member(key)
    full = _text(key)
    return [name] if name == full else [name, full]


def _text(text: str | None) -> str:
    return printable(text or "")[:_HINT_LETTERS]


def _newest(rows: list[Row], most: int) -> list[Row]:
    return rows[: -most - 1 : -1]


def _after(at_ms: int | None, zero: int) -> int | None:
    return None if at_ms is None else at_ms - zero


def _place(row: Row) -> Place:
    return row["topic"], row["partition"]
