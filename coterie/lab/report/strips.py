"""Ownership strips: a line for each partition, the machines of a scenario on one time axis.

All segments of one colour are one path, so a strip stays small however often owners change.
"""

from html import escape
from statistics import median
from typing import Any

from coterie.lab.gaps import CAUSES
from coterie.lab.scenario import load_scenario

WIDTH = 1_000
MAX_ROWS = 12
_ROW = 7
# The scenario that is shown at once.
_OPEN = "three-and-one"
_COLOURS = 10
_SHORTEST_US = 10_000_000
# The axis is at most so many times as long as the median of the machines needs.
_LONGEST = 2.0
# A gap is drawn at least so wide.
_LEAST_WIDTH = 1.0
_MEANING = {
    "barrier": "stopped for a rebalance that gives it back",
    "handover": "given up, not yet given to another",
    "undetected": "owner dead or paused, nobody knows",
    "waiting": "that is known, rebalance under way",
    "delay": "Connect waits for the worker to come back",
    "broker": "its broker is down",
    "poison": "a record is tried again and again",
    "start": "the new owner is starting",
    "idle": "a member gave up",
}

Row = dict[str, Any]


def scenario_strips(rows: list[Row], machines: list[str]) -> str:
    """Return the strips of each scenario; the first one is open."""
    by_scenario: dict[str, dict[str, list[Row]]] = {}
    smallest: dict[str, tuple[Any, ...]] = {}
    for row in rows:
        size = (row["members"], sorted(row["settings"] or ()), row["seed"])
        smallest[row["scenario"]] = min(size, smallest.get(row["scenario"], size))
    for row in rows:
        if (row["members"], sorted(row["settings"] or ()), row["seed"]) == smallest[
            row["scenario"]
        ]:
            by_scenario.setdefault(row["scenario"], {}).setdefault(row["machine"], []).append(row)
    parts = [legend()]
    for scenario, found in sorted(by_scenario.items()):
        parts.append(
            _scenario(scenario, found, machines, is_open=scenario == _OPEN or len(by_scenario) == 1)
        )
    return "".join(parts) if by_scenario else ""


def legend() -> str:
    """Return what the colours mean."""
    items = "".join(
        f'<li><i class="c-{cause}"></i>{escape(_MEANING[cause])}</li>' for cause in CAUSES
    )
    return (
        "<p>A line is a partition, a colour is the pod that reads it. All machines of a simulated"
        " scenario have the same script and the same time axis.</p>"
        f'<ul class="legend">{items}<li><i class="c-double"></i>two members read</li></ul>'
    )


def _scenario(name: str, found: dict[str, list[Row]], machines: list[str], *, is_open: bool) -> str:
    scenario = load_scenario(name)
    ends_us = {machine: end_of_rows_us(rows) for machine, rows in found.items()}
    # One machine that waits for minutes must not make the seconds of the others invisible.
    end_us = min(max(ends_us.values()), int(_LONGEST * median(ends_us.values())))
    strips = "".join(
        f"<h4>{escape(machine)}{_going_on(ends_us[machine], end_us)}</h4>"
        f"{strip(found[machine], end_us)}"
        for machine in machines
        if machine in found
    )
    marks = "".join(f"<span>{end_us * part / 4e6:,.4g} s</span>" for part in range(5))
    return (
        f"<details{' open' if is_open else ''}><summary><b>{escape(scenario.title)}</b>"
        f" <small>{escape(name)}</small></summary><p>{escape(scenario.story)}</p>"
        f'<p class="look">{escape(scenario.picture)}</p>{strips}<div class="axis">{marks}</div>'
        "</details>"
    )


def _going_on(machine_end_us: int, end_us: int) -> str:
    if machine_end_us <= end_us:
        return ""
    return f" <small>goes on until {machine_end_us / 1e6:,.0f} s</small>"


def end_of_rows_us(rows: list[Row]) -> int:
    """Return until when something happens."""
    whole_us = max(row["to_us"] for row in rows)
    gap_us = max((row["to_us"] for row in rows if row["owner"] is None), default=0)
    return int(min(whole_us, max(_SHORTEST_US, gap_us * 1.1)))


def strip(rows: list[Row], end_us: int) -> str:
    """Return the drawing of the intervals of a run."""
    count = max(row["partition"] for row in rows) + 1
    step = -(-count // MAX_ROWS)
    paths: dict[str, list[str]] = {}
    readers: dict[int, list[tuple[int, int]]] = {}
    for row in sorted(rows, key=lambda each: (each["partition"], each["from_us"])):
        line, rest = divmod(row["partition"], step)
        if rest or row["from_us"] >= end_us:
            continue
        to_us = min(row["to_us"], end_us)
        if row["owner"] is None:
            paths.setdefault(f"c-{row['cause']}", []).append(
                _segment(line, row["from_us"], to_us, end_us)
            )
            continue
        owner = row["owner"].split(".")[0].rsplit("-", 1)[-1]
        colour = int(owner) % _COLOURS if owner.isdigit() else _COLOURS
        paths.setdefault(f"o{colour}", []).append(_segment(line, row["from_us"], to_us, end_us))
        readers.setdefault(line, []).append((row["from_us"], to_us))
    for line, times in readers.items():
        for begin_us, until_us in _overlaps(times):
            paths.setdefault("c-double", []).append(_segment(line, begin_us, until_us, end_us))
    height = -(-count // step) * _ROW
    # Gaps and double reading are drawn over the readers.
    drawn = "".join(
        f'<path class="{name}" d="{"".join(paths[name])}"/>'
        for name in sorted(paths, key=lambda name: (name == "c-double", name[0] == "c", name))
    )
    return (
        f'<svg class="strip" viewBox="0 0 {WIDTH} {height}" preserveAspectRatio="none"'
        f' style="height:{height}px" role="img">{drawn}</svg>'
    )


def _segment(line: int, from_us: int, to_us: int, end_us: int) -> str:
    begin = from_us / end_us * WIDTH
    end = max(to_us / end_us * WIDTH, begin + _LEAST_WIDTH)
    return f"M{begin:.5g} {line * _ROW + _ROW / 2:g}H{end:.5g}"


def _overlaps(times: list[tuple[int, int]]) -> list[tuple[int, int]]:
    found = []
    until_us = 0
    for begin_us, end_us in sorted(times):
        if begin_us < until_us:
            found.append((begin_us, min(until_us, end_us)))
        until_us = max(until_us, end_us)
    return found
