"""Ownership over time: a lane for each partition, a bar for each owner, a line for each rebalance
with its cause.

A gap in a lane is time without owner: that is the cost of a rebalance. Over days such gaps are
thinner than a pixel, so the costliest rebalance is drawn a second time by itself.
"""

from collections.abc import Sequence
from typing import NamedTuple

from coterie.pipeline.report.content import GroupContent, Place, Row
from coterie.pipeline.report.svg import (
    COLOURS,
    Scale,
    clock,
    line,
    rect,
    svg,
    text,
    ticks_ms,
)
from coterie.pipeline.report.words import counted, cut, duration, known, moment

# A drawing of more lanes is not readable; the page says how many it leaves out.
MAX_LANES = 64
_WIDTH = 1080
# The names of the lanes get the room that they need, within these limits.
_LEAST_LEFT, _MOST_LEFT, _LETTER_WIDTH = 44, 190, 6.4
_LANE = 16
_BAR = 11
_TOP = 34
_BOTTOM = 26
_LEAST_BAR = 0.6
# A thinner gap could not be seen, so the bars to its left and right are drawn as one.
_LEAST_GAP = 0.7
_LABEL_LETTERS = 28
# More lines than this are drawn thin, because they would hide the bars.
_MANY_MARKS = 60
# The time that a close-up shows before and after the rebalance, as a part of its duration.
_AROUND = 0.2
_AROUND_MS = 50

Span = tuple[int, int]


def member_colours(rows: Sequence[Row]) -> dict[str, str]:
    """Return a colour for each member, in the order in which the members first own anything."""
    keys = dict.fromkeys(row["member_key"] for row in rows)
    return {key: COLOURS[number % len(COLOURS)] for number, key in enumerate(keys)}


def gantt(group: GroupContent, span_ms: Span) -> str:
    """Draw the first `MAX_LANES` partitions of a group."""
    rows = group.tables["ownership"]
    lanes = sorted({(row["topic"], row["partition"]) for row in rows})[:MAX_LANES]
    shown = set(lanes)
    drawn = [row for row in rows if (row["topic"], row["partition"]) in shown]
    return _drawing(group, span_ms, lanes, drawn)


def costliest(group: GroupContent) -> Row | None:
    """Return the rebalance with the longest time without owner, of those where it is known."""
    timed = [
        row
        for row in group.rebalances
        if row["unowned_partition_ms"] and row["started_ts"] and row["completed_ts"]
    ]
    return max(timed, key=lambda row: row["unowned_partition_ms"], default=None)


def close_up(group: GroupContent, rebalance: Row) -> str:
    """Draw one rebalance by itself.

    Args:
        group: the group.
        rebalance: a row of it with a beginning and an end.
    """
    begin, end = rebalance["started_ts"], rebalance["completed_ts"]
    around = round((end - begin) * _AROUND) + _AROUND_MS
    span = (begin - around, end + around)
    bars = [
        row
        for row in group.tables["ownership"]
        if row["from_ts"] <= span[1] and (row["to_ts"] is None or row["to_ts"] >= span[0])
    ]
    lanes = sorted({(row["topic"], row["partition"]) for row in bars})[:MAX_LANES]
    shown = [row for row in bars if (row["topic"], row["partition"]) in set(lanes)]
    return _drawing(group, span, lanes, shown, shaded=(begin, end))


def _drawing(
    group: GroupContent,
    span_ms: Span,
    lanes: Sequence[Place],
    rows: Sequence[Row],
    shaded: Span | None = None,
) -> str:
    # From all rows of the group, so that a member has the same colour in all drawings.
    colours = member_colours(group.tables["ownership"])
    height = _TOP + len(lanes) * _LANE + _BOTTOM
    names = [cut(f"{topic}-{partition}", _LABEL_LETTERS) for topic, partition in lanes]
    left = max(_LEAST_LEFT, *(round(len(name) * _LETTER_WIDTH) + 14 for name in names), 0)
    left = min(left, _MOST_LEFT)
    scale = Scale(*span_ms, left, _WIDTH - 10)
    parts = []
    if shaded is not None:
        x, width = scale.at(shaded[0]), scale.at(shaded[1]) - scale.at(shaded[0])
        parts.append(rect(x, _TOP - 6, width, height - _BOTTOM - _TOP + 6, css="shade"))
    parts += [*_axis(scale, height), *_labels(names, left)]
    rows_of: dict[Place, list[Row]] = {lane: [] for lane in lanes}
    for row in rows:
        rows_of[row["topic"], row["partition"]].append(row)
    for number, (lane, name) in enumerate(zip(lanes, names, strict=True)):
        parts += [
            _bar(name, number, bar, scale, colours[bar.member_key])
            for bar in _bars(rows_of[lane], scale)
        ]
    marked = [row for row in group.rebalances if span_ms[0] <= _began(row) <= span_ms[1]]
    css = "mark many" if len(marked) > _MANY_MARKS else "mark"
    parts += [_mark(row, scale, height, css) for row in marked]
    label = (
        f"Ownership of {counted(len(lanes), 'partition')} of {cut(group.group_id)} from"
        f" {moment(span_ms[0])} to {moment(span_ms[1])}, {counted(len(marked), 'rebalance')}"
    )
    drawing = svg(_WIDTH, height, parts, label=label)
    return f'<div class="wide" role="region" tabindex="0" aria-label="Drawing">{drawing}</div>'


def _began(row: Row) -> int:
    at_ms: int = row["started_ts"] if row["started_ts"] is not None else row["completed_ts"]
    return at_ms


def _axis(scale: Scale, height: float) -> list[str]:
    span = scale.high - scale.low
    parts = []
    for at_ms in ticks_ms(scale.low, scale.high, 9):
        x = scale.at(at_ms)
        parts.append(line(x, _TOP - 6, x, height - _BOTTOM, css="grid"))
        parts.append(text(x, height - 8, clock(at_ms, span), css="tick", anchor="middle"))
    return parts


def _labels(names: Sequence[str], left: float) -> list[str]:
    return [
        text(left - 8, _TOP + number * _LANE + _BAR - 1, each, css="lane", anchor="end")
        for number, each in enumerate(names)
    ]


class _Bar(NamedTuple):
    """The time for which one member owned a lane; it may contain gaps too thin to be seen."""

    member_key: str
    from_ms: int
    to_ms: int
    is_open: bool
    first_generation: int
    last_generation: int


def _bars(rows: Sequence[Row], scale: Scale) -> list[_Bar]:
    """Return the bars of one lane, from its rows in order of time."""
    gap_ms = _LEAST_GAP * (scale.high - scale.low) / (scale.end - scale.start)
    bars: list[_Bar] = []
    for row in rows:
        to_ms = row["to_ts"]
        bar = _Bar(
            row["member_key"],
            row["from_ts"],
            round(scale.high) if to_ms is None else to_ms,
            to_ms is None,
            row["generation"],
            row["generation"],
        )
        before = bars[-1] if bars else None
        if (
            before is not None
            and before.member_key == bar.member_key
            and bar.from_ms - before.to_ms < gap_ms
        ):
            bars[-1] = bar._replace(
                from_ms=before.from_ms, first_generation=before.first_generation
            )
        else:
            bars.append(bar)
    return bars


def _bar(lane: str, number: int, bar: _Bar, scale: Scale, fill: str) -> str:
    start, end = scale.at(bar.from_ms), scale.at(bar.to_ms)
    owner = cut(bar.member_key)
    if bar.is_open:
        owned = f"owned by {owner} since {moment(bar.from_ms)}"
    else:
        length = duration(bar.to_ms - bar.from_ms)
        owned = f"owned by {owner} for {length} from {moment(bar.from_ms)}"
    generations = f"generation {bar.first_generation}"
    if bar.last_generation != bar.first_generation:
        generations = f"generations {bar.first_generation} to {bar.last_generation}"
    title = f"{lane}: {owned}, {generations}"
    width = max(end - start, _LEAST_BAR)
    return rect(start, _TOP + number * _LANE, width, _BAR, css="bar", title=title, fill=fill)


def _mark(row: Row, scale: Scale, height: float, css: str) -> str:
    at_ms = _began(row)
    x = scale.at(at_ms)
    if row["evidence"] != "journal":
        css += " guessed"
    by = f" by {cut(row['trigger_member_key'])}" if row["trigger_member_key"] else ""
    reason = f" ({cut(row['trigger_reason'])})" if row["trigger_reason"] else ""
    title = (
        f"Generation {known(row['to_generation'])}: {cut(row['trigger'])}{by}{reason},"
        f" {moment(at_ms)}. Duration: {duration(row['duration_ms'])}. Time without owner, all"
        f" partitions: {duration(row['unowned_partition_ms'])}. Moved: {row['moved']}."
    )
    return line(x, 8, x, height - _BOTTOM, css=css, title=title)
