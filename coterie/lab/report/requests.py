"""Requests by API: a bar for each machine, for the scenario with the most of them."""

from html import escape
from statistics import median

from coterie.lab.report.matrix import Cells, first_cells

_PARTS = 6


def request_bars(cells: Cells, machines: list[str]) -> str:
    """Return the bars."""
    first = first_cells(cells)
    scenario = "herd" if "herd" in first else min(first)
    cell = first[scenario]
    counts: dict[str, dict[str, float]] = {}
    for machine in machines:
        runs = cells.get(cell._replace(machine=machine)) or []
        apis = sorted({api for run in runs for api, _ in run["requests_by_api"] or ()})
        counts[machine] = {
            api: median(dict(run["requests_by_api"]).get(api, 0) for run in runs) for api in apis
        }
    most = max((sum(found.values()) for found in counts.values()), default=0) or 1
    lines = []
    for machine, found in counts.items():
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
        lines.append(
            f"<div class=bar><b>{escape(machine)}</b> {sum(found.values()):,.0f}"
            f"<div>{bars}</div><small>{names}</small></div>"
        )
    return (
        f"<p>All messages to servers, and notices from them, during <b>{escape(scenario)}</b>"
        f" ({cell.members} members, {cell.partitions} partitions).</p>{''.join(lines)}"
    )
