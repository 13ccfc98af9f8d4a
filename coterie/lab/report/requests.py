"""Requests by API: a bar for each machine, scenario by scenario."""

from html import escape
from statistics import median

from coterie.lab.report.matrix import Cells, first_cells
from coterie.lab.summary import Cell, size_text

_PARTS = 6
# The scenario that is shown at once.
_OPEN = "herd"


def request_bars(cells: Cells, machines: list[str]) -> str:
    """Return the bars of each scenario."""
    first = first_cells(cells)
    shown = _OPEN if _OPEN in first else min(first)
    parts = [
        f"<details{' open' if name == shown else ''}><summary><b>{escape(name)}</b>"
        f" <small>{size_text(cell.members, cell.partitions)}</small></summary>"
        f"{_bars(cells, cell, machines)}</details>"
        for name, cell in sorted(first.items())
    ]
    return (
        "<p>All messages to servers, and notices from them, by API. The bars of a scenario have one"
        f" scale.</p>{''.join(parts)}"
    )


def _bars(cells: Cells, cell: Cell, machines: list[str]) -> str:
    """Return the bar of each machine in one scenario."""
    counts: dict[str, dict[str, float]] = {}
    for machine in machines:
        runs = cells.get(cell._replace(machine=machine))
        if not runs:
            continue
        found = [dict(run["requests_by_api"] or ()) for run in runs]
        apis = sorted({api for each in found for api in each})
        counts[machine] = {api: median(each.get(api, 0) for each in found) for api in apis}
    most = max((sum(found.values()) for found in counts.values()), default=0) or 1
    return "".join(_bar(machine, found, most) for machine, found in counts.items())


def _bar(machine: str, found: dict[str, float], most: float) -> str:
    ordered = sorted(found.items(), key=lambda item: -item[1])
    shown = ordered[:_PARTS]
    rest = sum(number for _, number in ordered[_PARTS:])
    if rest:
        shown.append(("others", rest))
    bars = "".join(
        f'<i class="o{index}" style="width:{number / most * 100:.2f}%"'
        f' title="{escape(api)} {number:,.0f}"></i>'
        for index, (api, number) in enumerate(shown)
    )
    names = ", ".join(f"{escape(api)} {number:,.0f}" for api, number in shown)
    return (
        f"<div class=bar><b>{escape(machine)}</b> {sum(found.values()):,.0f}"
        f"<div>{bars}</div><small>{names}</small></div>"
    )
