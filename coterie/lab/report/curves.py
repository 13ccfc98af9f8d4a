"""A metric over the number of members, both logarithmic, with the range of the seeds."""

from collections.abc import Mapping, Sequence
from html import escape
from math import floor, log10
from typing import Any

from coterie.lab.report.matrix import Cells
from coterie.lab.summary import Cell, Spread, spread

_METRICS = {"unowned": "partition-seconds without a reader", "requests": "requests"}
_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 420, 300, 46, 10, 30
# Below this a value is drawn at the bottom.
_FLOOR = 0.01

Points = Sequence[tuple[float, Spread]]


def curves(cells: Cells, machines: list[str], measured: Sequence[dict[str, Any]] = ()) -> str:
    """Return a drawing for each scenario that was run in several sizes.

    Args:
        cells, machines: of the sweep.
        measured: rows of live runs, which are drawn as rings.
    """
    parts = []
    for scenario in sorted({cell.scenario for cell in cells}):
        sizes = sorted({cell.members for cell in cells if cell.scenario == scenario})
        if len(sizes) < 2:
            continue
        for metric, title in _METRICS.items():
            lines = {name: _points(cells, scenario, name, metric) for name in machines}
            rings = [
                (machines.index(row["machine"]), row["members"], row[metric])
                for row in measured
                if row["scenario"] == scenario
                and row["machine"] in machines
                and sizes[0] <= row["members"] <= sizes[-1]
                and row[metric] is not None
            ]
            parts.append(
                f"<figure><figcaption><b>{escape(scenario)}</b>: {escape(title)}</figcaption>"
                f"{_drawing(lines, sizes, machines, rings)}</figure>"
            )
    if not parts:
        return (
            "<p>This sweep has one size for each scenario. <code>coterie lab sweep --members"
            " 10,30,100 ...</code> draws curves here.</p>"
        )
    return (
        "<p>Lines are medians; the band is what 90 % of the seeds lie between; rings are live"
        " runs.</p>"
        f'{_names(machines)}<div class="figures">{"".join(parts)}</div>'
    )


def duplicates_curves(cells: Cells, machines: list[str]) -> str:
    """Return the duplicates over the commit interval, for each scenario that has several."""
    parts = []
    for scenario in sorted({cell.scenario for cell in cells}):
        smallest = min(cell.members for cell in cells if cell.scenario == scenario)
        found: dict[str, dict[float, Spread]] = {name: {} for name in machines}
        for cell, runs in cells.items():
            interval_s = float(dict(cell.settings).get("commit_ms", 0)) / 1_000
            if (cell.scenario, cell.members) != (scenario, smallest) or not interval_s:
                continue
            value = spread(run["duplicates"] for run in runs)
            if value is not None:
                found[cell.machine].setdefault(interval_s, value)
        intervals = sorted({each for points in found.values() for each in points})
        longest = intervals[-1] if intervals else 0.0
        lost = any(longest in points and points[longest].median for points in found.values())
        if len(intervals) > 1 and lost:
            lines = {name: sorted(points.items()) for name, points in found.items()}
            parts.append(
                f"<figure><figcaption><b>{escape(scenario)}</b>: records handed over twice, over"
                f" the commit interval in seconds</figcaption>"
                f"{_drawing(lines, intervals, machines, [])}</figure>"
            )
    if not parts:
        return (
            "<p><code>coterie lab sweep --scenario flapping --set"
            " commit_ms=200,1000,5000,20000 ...</code> draws duplicates over the commit interval"
            " here.</p>"
        )
    return (
        "<p>What a member has read and not committed is read again. So duplicates grow with the"
        " interval, half of which has passed on average.</p>"
        f'{_names(machines)}<div class="figures">{"".join(parts)}</div>'
    )


def _points(cells: Cells, scenario: str, machine: str, metric: str) -> Points:
    found: dict[int, Spread] = {}
    for cell, runs in cells.items():
        if (cell.scenario, cell.machine) == (scenario, machine) and cell.members not in found:
            value = spread(run[metric] for run in runs)
            if value is not None and cell == _first(cells, cell):
                found[cell.members] = value
    return sorted(found.items())


def _first(cells: Cells, like: Cell) -> Cell:
    """Return the first cell of the same scenario, machine and size, over the settings."""
    return min(
        (cell for cell in cells if cell[:3] == like[:3]),
        key=lambda cell: (cell.partitions, cell.settings),
    )


def _names(machines: list[str]) -> str:
    items = "".join(
        f'<li><i class="m{index % 13}"></i>{escape(name)}</li>'
        for index, name in enumerate(machines)
    )
    return f'<ul class="legend">{items}</ul>'


def _drawing(
    lines: Mapping[str, Points],
    sizes: Sequence[float],
    machines: list[str],
    rings: list[tuple[int, int, float]],
) -> str:
    values = [max(_FLOOR, point.median) for points in lines.values() for _, point in points]
    low, high = floor(log10(min(values))), log10(max(values) * 1.3)
    left, right = log10(sizes[0]), log10(sizes[-1])

    def x(size: float) -> float:
        return _LEFT + (log10(size) - left) / (right - left) * (_WIDTH - _LEFT - 12)

    def y(value: float) -> float:
        share = (log10(max(_FLOOR, value)) - low) / max(0.1, high - low)
        return _HEIGHT - _BOTTOM - min(1.0, max(0.0, share)) * (_HEIGHT - _BOTTOM - _TOP)

    parts = []
    for power in range(low, floor(high) + 1):
        at = y(10.0**power)
        parts.append(
            f'<path class="grid" d="M{_LEFT} {at:.1f}H{_WIDTH}"/>'
            f'<text x="{_LEFT - 5}" y="{at + 4:.1f}" text-anchor="end">{10.0**power:g}</text>'
        )
    parts += [
        f'<text x="{x(size):.1f}" y="{_HEIGHT - 8}" text-anchor="middle">{size:g}</text>'
        for size in sizes
    ]
    for index, machine in enumerate(machines):
        points = lines[machine]
        if not points:
            continue
        band = [(x(size), y(point.p95)) for size, point in points]
        band += [(x(size), y(point.p05)) for size, point in reversed(points)]
        middle = [(x(size), y(point.median)) for size, point in points]
        parts.append(
            f'<g class="m{index % 13}"><path class="band" d="M{_joined(band)}Z"/>'
            f'<path class="line" d="M{_joined(middle)}"><title>{escape(machine)}</title></path></g>'
        )
    parts += [
        f'<g class="m{index % 13}"><circle class="ring" cx="{x(size):.1f}" cy="{y(value):.1f}"'
        f' r="4"><title>measured: {value:.1f}</title></circle></g>'
        for index, size, value in rings
    ]
    return f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">{"".join(parts)}</svg>'


def _joined(points: list[tuple[float, float]]) -> str:
    return "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
