"""Tables and JSON from the measurements.

A cell holds the median over the rounds, and below it the lowest and the highest value. A ratio
divides a peer's figure by the baseline's figure of the same round, because the machine drifts more
slowly than that, and is the median over the rounds. Above 1 the baseline is the cheaper broker.
"""

from __future__ import annotations

import os
import platform
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from statistics import median

from rich.table import Table as RichTable
from rich.text import Text

from benchmarks.measures import Metric, Row, Scenario
from benchmarks.rounds import Plan, Results, Table
from benchmarks.scenarios import SCENARIOS

# If other work on the machine takes more CPUs than this, the figures of a round are doubtful.
NOISY_SHARE = 0.3


def scenario_table(
    scenario: Scenario, rows: list[Row], table: Table, baseline: str | None
) -> RichTable:
    """Return the table of one scenario: one section for each row, one line for each broker."""
    title = scenario.title
    if baseline is not None:
        title += f" (ratio: {_flat(scenario.primary.title)} to {baseline}'s)"
    made = RichTable(title=title, title_justify="left", caption_justify="left")
    made.add_column("")
    made.add_column("broker", style="bold")
    for metric in scenario.metrics:
        made.add_column(metric.title, justify="right")
    if baseline is not None:
        made.add_column("ratio", justify="right")
    notes: list[str] = []
    for row in rows:
        results = table.get((scenario.key, row.key), {})
        for i, (name, result) in enumerate(results.items()):
            shape = row.title if i == 0 else ""
            if not result.outcomes:
                reason = result.not_available or "not measured"
                made.add_row(shape, name, *(Text("n/a", "dim") for _ in scenario.metrics))
                notes.append(f"{name}, {row.title}: n/a, {reason}")
                continue
            cells: list[Text | str] = [_cell(result, metric, row) for metric in scenario.metrics]
            if baseline is not None:
                cells.append(_ratio_text(results, name, baseline, scenario.primary))
            made.add_row(shape, name, *cells)
            notes += _errors(name, row, result)
        made.add_section()
    of_scenario = [table.get((scenario.key, row.key), {}) for row in rows]
    notes += _noise(result for results in of_scenario for result in results.values())
    made.caption = "\n".join(notes)
    return made


def _flat(title: str) -> str:
    """Return a column's title in one line."""
    return title.replace("/\n", "/").replace("\n", " ")


def _cell(result: Results, metric: Metric, row: Row) -> Text:
    values = result.values(metric.key)
    if not values:
        return Text("-", "dim")
    shown = Text(f"{median(values):,.{metric.decimals}f}")
    if len(values) > 1:
        low, high = min(values), max(values)
        shown.append(f"\n{low:,.{metric.decimals}f}-{high:,.{metric.decimals}f}", "dim")
    return shown


def _errors(name: str, row: Row, result: Results) -> list[str]:
    """Return a note about the errors that were answered during the load."""
    counts: Counter[str] = Counter()
    for outcome in result.outcomes:
        counts.update(outcome.errors)
    if not counts:
        return []
    listed = ", ".join(f"{number} x {error}" for error, number in counts.most_common())
    return [f"{name}, {row.title}: errors were answered: {listed}"]


def _noise(results: Iterable[Results]) -> list[str]:
    """Return a note about other work on the machine, if there was enough of it to matter."""
    shares = [
        outcome.others_share
        for result in results
        for outcome in result.outcomes
        if outcome.others_share is not None
    ]
    if not shares or max(shares) <= NOISY_SHARE:
        return []
    typical, most = median(shares), max(shares)
    return [f"noisy: other work took {typical:.1f} CPUs in the median round, at most {most:.1f}"]


def ratio(results: dict[str, Results], name: str, baseline: str, metric: Metric) -> float | None:
    """Return a broker's figure divided by the baseline's; None if either has no figure."""
    if name == baseline or baseline not in results or name not in results:
        return None
    pairs = zip(
        results[name].values(metric.key), results[baseline].values(metric.key), strict=False
    )
    ratios = [theirs / ours for theirs, ours in pairs if ours > 0]
    return median(ratios) if ratios else None


def _ratio_text(results: dict[str, Results], name: str, baseline: str, metric: Metric) -> Text:
    value = ratio(results, name, baseline, metric)
    return Text("" if value is None else f"x {value:.2f}")


def goals_table(table: Table, baseline: str, brokers: list[str]) -> RichTable:
    """Return the table of all figures with a goal: the goal, the baseline, every other broker."""
    made = RichTable(title=f"Goals of {baseline}", title_justify="left")
    made.add_column("figure")
    made.add_column("goal", justify="right")
    made.add_column(baseline, justify="right", style="bold")
    made.add_column("reached", justify="center")
    others = [name for name in brokers if name != baseline]
    for name in others:
        made.add_column(name, justify="right")
    for (scenario_key, row_key), results in table.items():
        scenario = SCENARIOS[scenario_key]
        row = scenario.row(row_key)
        for metric in scenario.metrics:
            if metric.key not in row.goals:
                continue
            goal = row.goals[metric.key]
            ours = results[baseline].values(metric.key) if baseline in results else []
            made.add_row(
                f"{scenario.key}, {row.title}: {_flat(metric.title)}",
                f"{'≥' if metric.more_is_better else '≤'} {goal:g}",
                f"{median(ours):,.{metric.decimals}f}" if ours else "n/a",
                _verdict(ours, goal, metric),
                *(_beside(results, name, baseline, metric) for name in others),
            )
    return made


def _verdict(ours: list[float], goal: float, metric: Metric) -> Text:
    if not ours:
        return Text("-", "dim")
    value = median(ours)
    reached = value >= goal if metric.more_is_better else value <= goal
    return Text("yes", "green") if reached else Text(f"x {value / goal:.2f}", "red")


def _beside(results: dict[str, Results], name: str, baseline: str, metric: Metric) -> Text:
    values = results[name].values(metric.key) if name in results else []
    if not values:
        return Text("n/a" if name in results else "", "dim")
    shown = Text(f"{median(values):,.{metric.decimals}f}")
    times = ratio(results, name, baseline, metric)
    if times is not None:
        shown.append(f" (x {times:.2f})", "dim")
    return shown


def machine() -> dict[str, object]:
    """Return the properties of the machine that influence the figures."""
    model = ""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    except OSError:
        model = platform.processor()
    return {
        "processor": model,
        "cpus": os.cpu_count(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "uvloop": version("uvloop"),
        "load_average": os.getloadavg(),
    }


def as_json(table: Table, plan: Plan, baseline: str | None) -> dict[str, object]:
    """Return all measurements as plain data: every round, not only the medians."""
    return {
        "machine": machine(),
        "plan": asdict(plan),
        "baseline": baseline,
        "scenarios": {
            f"{scenario}/{row}": {
                name: {
                    "not_available": result.not_available,
                    "rounds": [asdict(outcome) for outcome in result.outcomes],
                }
                for name, result in results.items()
            }
            for (scenario, row), results in table.items()
        },
    }
