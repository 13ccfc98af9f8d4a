"""Pairs of runs with the same seed, and therefore with the same script.

The seeds differ far more than the machines: it depends on chance where a failure falls. So runs are
compared pair by pair, and the ratios of the pairs are summed up.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from coterie.lab.errors import WrongInput, closest
from coterie.lab.outcome import METRICS
from coterie.lab.summary import cell_of, spread

Row = dict[str, Any]
# What is added to both sides of a ratio, so that nothing is divided by zero.
_SMALLEST = 1e-9


class Comparison(NamedTuple):
    """The pairs of a cell.

    Attributes:
        scenario, machine, members, settings: the cell.
        pairs: how many there are.
        baseline, value: the medians.
        ratio, ratio_p05, ratio_p95: the median of value by baseline, and its range; None if the
            baseline is 0 in too many pairs.
        wins: in how many pairs the value is below the baseline.
    """

    scenario: str
    machine: str
    members: int
    settings: str
    pairs: int
    baseline: float
    value: float
    ratio: float | None
    ratio_p05: float | None
    ratio_p95: float | None
    wins: int


def compare_machines(rows: list[Row], baseline: str, metric: str) -> list[Comparison]:
    """Compare every machine of a sweep with one of them.

    Raises:
        WrongInput: there is no such metric, or no run of the baseline.
    """
    _check_metric(metric)
    machines = sorted({row["machine"] for row in rows})
    if baseline not in machines:
        raise WrongInput(
            f"The sweep has no run of '{baseline}'{closest(baseline, machines)}."
            f" Its machines: {', '.join(machines)}."
        )
    before = {_pair(row, machine=""): row for row in rows if row["machine"] == baseline}
    after = [row for row in rows if row["machine"] != baseline]
    return _compared(before, after, metric, lambda row: _pair(row, machine=""))


def compare_sweeps(before: list[Row], after: list[Row], metric: str) -> list[Comparison]:
    """Compare the runs that two sweeps have in common.

    Raises:
        WrongInput: there is no such metric, or nothing in common.
    """
    _check_metric(metric)
    rows = {_pair(row): row for row in before}
    found = _compared(rows, after, metric, _pair)
    if not found:
        raise WrongInput("The two sweeps have no run in common.")
    return found


def _check_metric(metric: str) -> None:
    if metric not in METRICS:
        raise WrongInput(
            f"There is no metric '{metric}'{closest(metric, METRICS)}."
            f" Metrics: {', '.join(METRICS)}."
        )


def _pair(row: Row, machine: str | None = None) -> tuple[Any, ...]:
    cell = cell_of(row)
    if machine is not None:
        cell = cell._replace(machine=machine)
    return (*cell, row["seed"])


def _compared(
    before: dict[tuple[Any, ...], Row],
    after: Iterable[Row],
    metric: str,
    pair_of: Callable[[Row], tuple[Any, ...]],
) -> list[Comparison]:
    cells: dict[tuple[Any, ...], list[tuple[float, float]]] = {}
    for row in after:
        partner = before.get(pair_of(row))
        if partner is None or row[metric] is None or partner[metric] is None:
            continue
        if partner["script"] != row["script"]:
            raise WrongInput(
                f"Seed {row['seed']} of {row['scenario']} has two different scripts:"
                " the runs are no pairs."
            )
        cells.setdefault(cell_of(row), []).append((partner[metric], row[metric]))
    return [_comparison(cell, pairs) for cell, pairs in sorted(cells.items())]


def _comparison(cell: tuple[Any, ...], pairs: list[tuple[float, float]]) -> Comparison:
    scenario, machine, members, _, settings = cell
    baseline, value = (spread(side) for side in zip(*pairs, strict=True))
    assert baseline is not None, "a cell has a pair"
    assert value is not None, "a cell has a pair"
    ratios = spread(after / before for before, after in pairs if before > _SMALLEST)
    usable = ratios is not None and ratios.runs * 2 > len(pairs)
    return Comparison(
        scenario,
        machine,
        members,
        " ".join(f"{name}={text}" for name, text in settings),
        len(pairs),
        baseline.median,
        value.median,
        ratios.median if ratios and usable else None,
        ratios.p05 if ratios and usable else None,
        ratios.p95 if ratios and usable else None,
        sum(after < before for before, after in pairs),
    )
