"""Medians and ranges over the seeds of a sweep."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from coterie.client.names import counted
from coterie.lab.outcome import METRICS

Settings = tuple[tuple[str, str], ...]


class Cell(NamedTuple):
    """The runs of a sweep that differ in the seed only."""

    scenario: str
    machine: str
    members: int
    partitions: int
    settings: Settings


class Spread(NamedTuple):
    """The median of a metric, what 90 % of the runs lie between, and how many there are."""

    median: float
    p05: float
    p95: float
    runs: int


def size_text(members: int, partitions: int) -> str:
    """Return the size of a group."""
    return f"{counted(members, 'member')}, {counted(partitions, 'partition')}"


def cell_of(row: dict[str, Any]) -> Cell:
    """Return the cell of a row."""
    settings = tuple(sorted((str(name), str(value)) for name, value in row["settings"] or ()))
    return Cell(row["scenario"], row["machine"], row["members"], row["partitions"], settings)


def by_cell(rows: Iterable[dict[str, Any]]) -> dict[Cell, list[dict[str, Any]]]:
    """Group rows by cell, in order."""
    found: dict[Cell, list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(cell_of(row), []).append(row)
    return dict(sorted(found.items()))


def quantile(values: Sequence[float], share: float) -> float:
    """Return a quantile of sorted values, between two of them where it lies between."""
    place = share * (len(values) - 1)
    low = int(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (place - low)


def spread(values: Iterable[float | None]) -> Spread | None:
    """Return the spread of the values that exist; None without any."""
    found = sorted(value for value in values if value is not None)
    if not found:
        return None
    return Spread(quantile(found, 0.5), quantile(found, 0.05), quantile(found, 0.95), len(found))


def summary_rows(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a row for each cell and metric."""
    made = []
    for cell, runs in by_cell(rows).items():
        for metric in METRICS:
            found = spread(run[metric] for run in runs)
            if found is not None:
                identity = {**cell._asdict(), "settings": list(cell.settings)}
                made.append({**identity, "metric": metric, **found._asdict()})
    return made
