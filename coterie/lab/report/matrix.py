"""Tables of scenarios and machines."""

from html import escape
from math import log10
from typing import Any

from coterie.lab.summary import Cell, size_text, spread

Cells = dict[Cell, list[dict[str, Any]]]
# Shades go from one in ten thousand to one half of the time.
_LEAST, _MOST = -4.0, -0.3


def first_cells(cells: Cells) -> dict[str, Cell]:
    """Return for each scenario its first cell: the smallest size, the first settings."""
    found: dict[str, Cell] = {}
    for cell in cells:
        known = found.get(cell.scenario)
        if known is None or (cell.members, cell.settings) < (known.members, known.settings):
            found[cell.scenario] = cell
    return found


def matrix(cells: Cells, machines: list[str]) -> str:
    """Return the table of unavailability, with needless moves below."""
    intro = (
        "<p>Each cell: the share of partition time without a reader, and below it the moves that"
        " were not necessary. Darker is longer.</p>"
    )
    lines = []
    for scenario, first in sorted(first_cells(cells).items()):
        columns = "".join(_cell(cells.get(first._replace(machine=name))) for name in machines)
        size = size_text(first.members, first.partitions)
        lines.append(
            f"<tr><th>{escape(scenario)}<small>{escape(_with(size, first))}</small></th>"
            f"{columns}</tr>"
        )
    return intro + _table(machines, lines)


def _with(size: str, cell: Cell) -> str:
    return ", ".join([size, *(f"{name}={value}" for name, value in cell.settings)])


def _cell(runs: list[dict[str, Any]] | None) -> str:
    found = spread(run["unavailability"] for run in runs or ())
    needless = spread(run["needless"] for run in runs or ())
    if found is None or needless is None:
        return "<td class=none>-</td>"
    share = found.median
    shade = 0.0
    if share > 0:
        shade = min(1.0, max(0.0, (log10(share) - _LEAST) / (_MOST - _LEAST)))
    tip = f"5 % to 95 %: {found.p05:.3%} to {found.p95:.3%}"
    return (
        f'<td style="--v:{shade:.2f}" title="{tip}"><b>{_percent(share)}</b>'
        f"<small>{needless.median:,.0f}</small></td>"
    )


def _percent(share: float) -> str:
    if not share:
        return "0"
    if share < 0.0001:
        return "&lt;0.01 %"
    return f"{share * 100:.2g} %" if share < 0.1 else f"{share * 100:.0f} %"


def duplicates_table(cells: Cells, machines: list[str]) -> str:
    """Return the table of records that were handed over twice."""
    intro = (
        "<p>Records that were handed to the application more than once: what a member had read and"
        " not committed, and what two members read at the same time.</p>"
    )
    lines = []
    for scenario, first in sorted(first_cells(cells).items()):
        columns = []
        for name in machines:
            runs = cells.get(first._replace(machine=name)) or []
            found = spread(run["duplicates"] for run in runs)
            text = "-" if found is None else f"{found.median:,.0f}"
            columns.append(f"<td>{text}</td>")
        lines.append(f"<tr><th>{escape(scenario)}</th>{''.join(columns)}</tr>")
    return intro + _table(machines, lines)


def _table(columns: list[str], lines: list[str]) -> str:
    head = "".join(f"<th><span>{escape(name)}</span></th>" for name in columns)
    return (
        f'<div class="wide"><table class="matrix"><thead><tr><th></th>{head}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )
