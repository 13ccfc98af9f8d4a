"""Who had which partition when: a lane for each partition, a bar for each owner, a mark for each
rebalance with its cause.

Where a lane is empty the partition had no owner: that is what a rebalance costs.
"""

from collections.abc import Sequence

from coterie.pipeline.report.content import GroupContent, Row
from coterie.pipeline.report.svg import (
    COLOURS,
    Scale,
    clock,
    duration,
    line,
    moment,
    rect,
    svg,
    text,
    ticks_ms,
)

# More lanes than that are no picture any more; the page says how many are left out.
MAX_LANES = 64
# Bars of one page: a browser draws some ten thousand without delay.
MAX_BARS = 6_000
_WIDTH = 1080
_LEFT = 190
_LANE = 16
_BAR = 11
_TOP = 34
_BOTTOM = 26
_LEAST_BAR = 0.6
_LABEL_LETTERS = 28


def member_colours(rows: Sequence[Row]) -> dict[str, str]:
    """A colour for each member, by the order of their coming."""
    keys = dict.fromkeys(row["member_key"] for row in rows)
    return {key: COLOURS[number % len(COLOURS)] for number, key in enumerate(keys)}


def gantt(group: GroupContent, span_ms: tuple[int, int]) -> str:
    """The drawing, and a sentence about what it leaves out."""
    rows = group.tables["ownership"]
    lanes = sorted({(row["topic"], row["partition"]) for row in rows})
    shown = {lane: number for number, lane in enumerate(lanes[:MAX_LANES])}
    colours = member_colours(rows)
    height = _TOP + len(shown) * _LANE + _BOTTOM
    scale = Scale(*span_ms, _LEFT, _WIDTH - 10)
    parts = [*_axis(scale, height), *_labels(shown)]
    bars = [row for row in rows if (row["topic"], row["partition"]) in shown]
    parts += [_bar(row, shown, scale, colours, span_ms[1]) for row in bars[-MAX_BARS:]]
    parts += [_mark(row, scale, height) for row in group.rebalances]
    drawing = svg(_WIDTH, height, parts, label=f"Ownership of partitions in {group.group_id}")
    left_out = []
    if len(lanes) > len(shown):
        left_out.append(f"{len(lanes) - len(shown)} more partitions are not drawn.")
    if len(bars) > MAX_BARS:
        left_out.append(f"The oldest {len(bars) - MAX_BARS} bars are not drawn.")
    note = f'<p class="note">{" ".join(left_out)}</p>' if left_out else ""
    return f'<div class="wide">{drawing}</div>{note}'


def _axis(scale: Scale, height: float) -> list[str]:
    span = scale.high - scale.low
    parts = []
    for at_ms in ticks_ms(scale.low, scale.high, 9):
        x = scale.at(at_ms)
        parts.append(line(x, _TOP - 6, x, height - _BOTTOM, css="grid"))
        parts.append(text(x, height - 8, clock(at_ms, span), css="tick", anchor="middle"))
    return parts


def _labels(shown: dict[tuple[str, int], int]) -> list[str]:
    parts = []
    for (topic, partition), number in shown.items():
        name = f"{topic}-{partition}"
        if len(name) > _LABEL_LETTERS:
            name = "…" + name[-_LABEL_LETTERS:]
        y = _TOP + number * _LANE + _BAR
        parts.append(text(_LEFT - 8, y - 1, name, css="lane", anchor="end"))
    return parts


def _bar(
    row: Row,
    shown: dict[tuple[str, int], int],
    scale: Scale,
    colours: dict[str, str],
    end_ms: int,
) -> str:
    until_ms = end_ms if row["to_ts"] is None else row["to_ts"]
    start, end = scale.at(row["from_ts"]), scale.at(until_ms)
    y = _TOP + shown[row["topic"], row["partition"]] * _LANE
    held = duration(until_ms - row["from_ts"])
    still = "" if row["to_ts"] is not None else ", and still does"
    title = (
        f"{row['topic']}-{row['partition']}: {row['member_key']} held it {held} from"
        f" {moment(row['from_ts'])}, generation {row['generation']}{still}"
    )
    width = max(end - start, _LEAST_BAR)
    return rect(start, y, width, _BAR, css="bar", title=title, fill=colours[row["member_key"]])


def _mark(row: Row, scale: Scale, height: float) -> str:
    at_ms = row["started_ts"] if row["started_ts"] is not None else row["completed_ts"]
    x = scale.at(at_ms)
    css = "mark" if row["evidence"] == "journal" else "mark guessed"
    by = f" by {row['trigger_member_key']}" if row["trigger_member_key"] else ""
    reason = f" ({row['trigger_reason']})" if row["trigger_reason"] else ""
    title = (
        f"Generation {row['to_generation']}: {row['trigger']}{by}{reason}, {moment(at_ms)}."
        f" Took {duration(row['duration_ms'])}, without owner"
        f" {duration(row['unowned_partition_ms'])} in all, moved {row['moved']}."
    )
    return line(x, 8, x, height - _BOTTOM, css=css, title=title)
