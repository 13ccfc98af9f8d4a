"""The results of checks for people: a table by area, and every deviation side by side."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console, Group
from rich.markup import escape
from rich.padding import Padding
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from coterie.client.names import counted
from coterie.conformance.checks.check import Check
from coterie.conformance.checks.runner import CheckOutcome
from coterie.conformance.results import Status

STYLES = {
    Status.PASS: "green",
    Status.DEVIATES: "yellow",
    Status.FAILS: "red",
    Status.SKIPPED: "dim",
    Status.ERROR: "bold red",
}
# The lines of a conversation that are shown before a deviation.
_SHOWN_LINES = 12


class Board:
    """The table by area, which grows while the checks run."""

    def __init__(self, checks: Iterable[Check], console: Console) -> None:
        """Begin with the numbers of checks."""
        self.totals: dict[str, int] = {}
        for check in checks:
            self.totals[check.area] = self.totals.get(check.area, 0) + 1
        self._counts = {area: dict.fromkeys(Status, 0) for area in self.totals}
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
        )
        self._task = self._progress.add_task("checks", total=sum(self.totals.values()))

    def add(self, outcome: CheckOutcome) -> None:
        """Count a result."""
        self._counts[outcome.check.area][outcome.status] += 1
        self._progress.advance(self._task)

    def table(self) -> Table:
        """Return the table."""
        table = Table(box=None, pad_edge=False, padding=(0, 2))
        table.add_column("area")
        for status in Status:
            table.add_column(str(status), justify="right")
        for area, counts in self._counts.items():
            cells = [
                f"[{STYLES[status]}]{count}[/]" if count else "[dim]-[/]"
                for status, count in counts.items()
            ]
            table.add_row(escape(area), *cells)
        return table

    def __rich__(self) -> Group:
        return Group(self.table(), self._progress)


def alike(outcomes: Iterable[CheckOutcome]) -> list[list[CheckOutcome]]:
    """Return outcomes that did not pass, with those together that probably have one cause.

    They are about one API, and the first field that differs is the same, with the same values; of
    those without a response the reason is the same.
    """
    found: dict[tuple[str, ...], list[CheckOutcome]] = {}
    for outcome in outcomes:
        found.setdefault((outcome.check.api, *_first_difference(outcome)), []).append(outcome)
    return list(found.values())


def _first_difference(outcome: CheckOutcome) -> tuple[str, ...]:
    fields = outcome.deviations[0].fields if outcome.deviations else ()
    return tuple(fields[0]) if fields else (outcome.reason,)


def print_alike(console: Console, outcomes: Sequence[CheckOutcome]) -> None:
    """Print checks that did not pass with the same difference: the first, and the other names."""
    first, *others = outcomes
    print_outcome(console, first)
    if others:
        field, *values = _first_difference(first)
        difference = field
        if values:
            expected, received = values
            difference = f"{field}: expected {expected}, received {received}"
        console.print(
            f"  [bold]and {counted(len(others), 'more check')} of {escape(first.check.api)}[/]"
            f" whose first difference is {escape(difference)}",
            highlight=False,
        )
        names = ", ".join(each.check.name for each in others)
        console.print(Padding(escape(names), (0, 0, 0, 4)), highlight=False, style="dim")


def print_outcome(console: Console, outcome: CheckOutcome) -> None:
    """Print a check that did not pass: what it is about, the conversation and the differences."""
    check = outcome.check
    style = STYLES[outcome.status]
    console.print()
    console.print(f"[{style}]{outcome.status}[/]  [bold]{escape(check.name)}[/]")
    console.print(f"  {escape(check.sentence)}", highlight=False)
    console.print(f"  source: {escape(check.source)}", highlight=False, style="dim")
    if outcome.reason:
        console.print(f"  {escape(outcome.reason)}", highlight=False, style=style)
    lines = list(outcome.conversation)
    if len(lines) > _SHOWN_LINES:
        console.print(f"  ... {len(lines) - _SHOWN_LINES} lines before", style="dim")
    for said in lines[-_SHOWN_LINES:]:
        console.print(f"  {said.elapsed_s:7.3f}  {escape(said.text)}", highlight=False)
    for deviation in outcome.deviations:
        table = Table(box=None, pad_edge=False, padding=(0, 2))
        for title in ("  field", "expected", "received"):
            table.add_column(title, overflow="fold")
        for each in deviation.fields:
            table.add_row(f"  {escape(each.path)}", escape(each.expected), escape(each.received))
        console.print(table)


def skips_by_reason(outcomes: Iterable[CheckOutcome]) -> list[tuple[str, int]]:
    """Return the reasons of skipped checks and how often each occurs, the most frequent first."""
    counts: dict[str, int] = {}
    for outcome in outcomes:
        if outcome.status is Status.SKIPPED:
            counts[outcome.reason] = counts.get(outcome.reason, 0) + 1
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def print_stop(console: Console, stopped: Mapping[str, Any]) -> None:
    """Print that the broker stopped listening, and what it was sent last."""
    console.print(f"\n[bold red]{escape(stopped['sentence'])}[/]  Sent last, and not answered:")
    for line in stopped["last_sent"]:
        console.print(f"  {escape(line)}", highlight=False)
    console.print(
        "Start it again and run these checks alone, with --only NAME; the others run with"
        " --except NAME.",
        highlight=False,
    )
