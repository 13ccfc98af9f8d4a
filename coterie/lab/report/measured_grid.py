"""The live grid as measured with real clients, beside what the model says about each cell."""

from html import escape
from importlib.resources import files
from itertools import groupby
from operator import itemgetter

_PHASES = ("kept", "restarted", "drifting")
_COLUMNS = ("client", "broker", "machine")
_TITLES = {
    "one-joins": "one joins",
    "one-leaves": "one leaves",
    "one-is-killed": "one is killed",
    "one-is-paused": "one is paused for 15 s",
}


def grid_rows() -> list[dict[str, str]]:
    """Return the cells: texts by the names of the columns of the file."""
    text = (files("coterie.lab") / "measured_grid.tsv").read_text(encoding="utf-8")
    heading, *lines = text.splitlines()
    return [dict(zip(heading.split("\t"), line.split("\t"), strict=True)) for line in lines]


def is_inside(row: dict[str, str]) -> bool:
    """Return whether the model gives the value for one of its phases, within a tenth."""
    ranges = [tuple(map(float, row[phase].split("-"))) for phase in _PHASES if row[phase]]
    return any(low * 0.9 <= float(row["unowned"]) <= high * 1.1 for low, high in ranges)


def grid_table() -> str:
    """Return the table."""
    rows = grid_rows()
    lines = []
    for names, group in groupby(rows, itemgetter(*_COLUMNS)):
        cells = {row["scenario"]: _cell(row) for row in group}
        head = "".join(f"<td>{escape(name)}</td>" for name in names)
        lines.append(f"<tr>{head}{''.join(cells.get(name, '<td></td>') for name in _TITLES)}</tr>")
    modelled = [row for row in rows if row["kept"]]
    inside = sum(map(is_inside, modelled))
    titles = "".join(f"<th>{escape(name)}</th>" for name in (*_COLUMNS, *_TITLES.values()))
    return (
        "<p>Four members, twelve partitions, sessions of 6 s, a heartbeat each 2 s; one run a cell"
        " on two busy cores. Partition-seconds without a reader, with two readers after the plus."
        f" {inside} of {len(modelled)} cells lie in what the model gives for 90 % of its seeds"
        " under one of its heartbeat phases, or within a tenth of it; the others are in italics."
        " <code>make lab-live</code> measures them again.</p>"
        f'<div class="wide"><table><thead><tr>{titles}</tr></thead><tbody>{"".join(lines)}'
        "</tbody></table></div>"
    )


def _cell(row: dict[str, str]) -> str:
    text = row["unowned"] if row["double"] == "0.0" else f"{row['unowned']} + {row['double']}"
    if not row["kept"]:
        return f"<td>{text}</td>"
    ranges = ", ".join(f"{phase} {row[phase]}" for phase in _PHASES)
    shown = text if is_inside(row) else f"<i>{text}</i>"
    return f'<td title="simulated: {ranges}">{shown}</td>'
