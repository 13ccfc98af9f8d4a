"""The page: what was run, then pictures, then the claims."""

import json
from html import escape
from importlib.resources import files
from string import Template
from typing import Any, NamedTuple

from coterie.client.names import counted
from coterie.lab.claims import CLAIMS
from coterie.lab.errors import WrongInput
from coterie.lab.machines import MACHINES
from coterie.lab.report.comparison import comparison
from coterie.lab.report.curves import curves, duplicates_curves
from coterie.lab.report.matrix import duplicates_table, matrix
from coterie.lab.report.measured import measured_section
from coterie.lab.report.measured_grid import grid_table
from coterie.lab.report.requests import request_bars
from coterie.lab.report.strips import scenario_strips
from coterie.lab.summary import by_cell

ASSUMPTIONS = (
    "Everything on this page is simulated, unless it says measured.",
    "Heartbeats, and the time that the application takes for a poll, decide more than protocols.",
    "By default each member has its own heartbeat phase, as in a group that has run for long.",
    "A poll takes 100 ms on average, if the scenario does not say otherwise.",
    "Records arrive evenly, ten a second in each partition; a late reader reads ten times faster.",
    "The queues of ZooKeeper, and the bytes of ZooKeeper and RocketMQ, are estimates.",
    "The data path of a dead broker is not modelled.",
    "A partition counts as read as long as its reader hands records to the application.",
)


class Live(NamedTuple):
    """Live runs that are shown beside a sweep: their rows and timelines."""

    rows: list[dict[str, Any]]
    timelines: list[dict[str, Any]]


_NO_LIVE = Live([], [])


def render(
    plan_text: str,
    rows: list[dict[str, Any]],
    timelines: list[dict[str, Any]],
    live: Live = _NO_LIVE,
) -> str:
    """Return the page.

    Args:
        plan_text, rows, timelines: of the sweep.
        live: the rows and timelines of live runs.

    Raises:
        WrongInput: the sweep has no rows.
    """
    measured = [row for row in [*rows, *live.rows] if row["evidence"] == "measured"]
    rows = [row for row in rows if row["evidence"] != "measured"]
    if not rows and measured:
        return _page(
            [
                ("What was measured", measured_section(measured, [*timelines, *live.timelines])),
                ("The model beside real clients", comparison() + grid_table()),
            ]
        )
    if not rows:
        raise WrongInput("The sweep has no runs yet: `coterie lab sweep` makes them.")
    cells = by_cell(rows)
    machines = [name for name in MACHINES if any(cell.machine == name for cell in cells)]
    plan = json.loads(plan_text)
    seeds = sorted({row["seed"] for row in rows})
    sections = [
        ("What was run", _what_was_run(rows, seeds, plan["version"])),
        ("Time without a reader", matrix(cells, machines)),
        ("Who reads what", scenario_strips(timelines, machines)),
        ("Over the number of members", curves(cells, machines, measured)),
        ("Duplicates", duplicates_table(cells, machines) + duplicates_curves(cells, machines)),
        ("Requests", request_bars(cells, machines)),
        ("The claims", _claims()),
        ("What was measured", measured_section(measured, live.timelines)),
        ("The model beside real clients", comparison() + grid_table()),
    ]
    return _page(sections)


def _page(sections: list[tuple[str, str]]) -> str:
    body = "\n".join(
        f'<section id="s{number}"><h2>{escape(title)}</h2>\n{content}\n</section>'
        for number, (title, content) in enumerate(sections)
        if content
    )
    return Template(_asset("page.html")).substitute(style=_asset("page.css"), body=body)


def _what_was_run(rows: list[dict[str, Any]], seeds: list[int], version: str) -> str:
    scenarios = {row["scenario"] for row in rows}
    machines = {row["machine"] for row in rows}
    items = "".join(f"<li>{escape(text)}</li>" for text in ASSUMPTIONS)
    return (
        f"<p>{counted(len(rows), 'simulated run')}: {counted(len(scenarios), 'scenario')},"
        f" {counted(len(machines), 'machine')}, {counted(len(seeds), 'seed')}, with Coterie"
        f" {escape(version)}. Numbers are medians over the seeds.</p><ul>{items}</ul>"
    )


def _claims() -> str:
    parts = [
        f'<tr class="{claim.verdict}"><td>{claim.number}</td><td>{escape(claim.claim)}</td>'
        f"<td><b>{claim.verdict}</b></td><td>{escape(claim.finding)}"
        f"{f'<br><code>{escape(claim.command)}</code>' if claim.command else ''}</td></tr>"
        for claim in CLAIMS
    ]
    return (
        '<div class="wide"><table class="claims"><thead><tr><th>#</th><th>Claim</th>'
        "<th>Verdict</th><th>What we found</th></tr></thead><tbody>"
        f"{''.join(parts)}</tbody></table></div>"
    )


def _asset(name: str) -> str:
    return (files("coterie.lab.report") / "assets" / name).read_text(encoding="utf-8")
