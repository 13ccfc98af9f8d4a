"""What `coterie check-client` shows: its progress, and its results by area."""

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.table import Table

from coterie.client_check.model import Judgement
from coterie.conformance.results import Result, counts

if TYPE_CHECKING:
    from coterie.client_check.model import Scenario

_STYLES: dict[StrEnum, str] = {
    Judgement.PASS: "green",
    Judgement.DIFFERS: "yellow",
    Judgement.BREAKS: "red",
    Judgement.SKIPPED: "dim",
    Judgement.ERROR: "bold red",
}
_SHOWN = (Judgement.BREAKS, Judgement.DIFFERS, Judgement.ERROR)
# Wide enough for each reason where no terminal sets the width.
_FILE_WIDTH = 200


class Progress:
    """A bar on standard error while the scenarios run; none if that is no terminal."""

    def __init__(self, scenarios: Sequence["Scenario"], *, shown: bool) -> None:
        """Prepare the bar."""
        console = Console(stderr=True)
        self._bar = Bar(
            TextColumn("{task.description}", table_column=None),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not shown or not console.is_terminal,
        )
        self._task = self._bar.add_task("the program alone", total=len(scenarios))

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def played(self, scenario: "Scenario", results: list[Result]) -> None:
        """Show that a scenario has ended, and which of its checks did not pass."""
        self._bar.update(self._task, advance=1, description=scenario.name[:60])
        for each in results:
            if each.status in _SHOWN and not self._bar.disable:
                style = _STYLES[each.status]
                self._bar.console.print(f"[{style}]{each.status:9}[/] {each.name}")


def print_results(results: Sequence[Result], about: dict[str, Any], *, verbose: bool) -> None:
    """Print what is no pass with its reason, and a table by area.

    Args:
        results: the results.
        about: the client and the time.
        verbose: whether to print conversations, too.
    """
    console = Console()
    if not console.is_terminal:
        console = Console(width=_FILE_WIDTH)
    shown: tuple[str, ...] = ()
    for each in results:
        if each.status not in _SHOWN:
            continue
        console.print(f"[{_STYLES[each.status]}]{each.status:9}[/] [bold]{each.name}[/]")
        for line in (each.sentence, f"Source: {each.source}", f"Seen: {each.reason}"):
            console.print(f"          {line}", markup=False, highlight=False)
        if verbose and each.conversation != shown:
            shown = each.conversation
            for line in shown:
                console.print(f"            {line}", markup=False, highlight=False)
    console.print()
    console.print(_table(results))
    _print_skips(console, results)
    totals = ", ".join(f"{count} {status}" for status, count in counts(results, Judgement).items())
    software = about["client"]["software"] or "a client without a name"
    console.print(
        f"\n{software}: {len(results)} checks, {totals}, in {about['seconds']} s", highlight=False
    )
    if any(each.conversation for each in results) and not verbose:
        console.print("--verbose or --json show the conversation of each.", style="dim")


def _table(results: Sequence[Result]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("AREA")
    for status in Judgement:
        table.add_column(status.upper(), justify="right")
    for area in dict.fromkeys(each.area for each in results):
        found = counts((each for each in results if each.area == area), Judgement)
        cells = [str(found[status] or "") for status in Judgement]
        table.add_row(
            area,
            *(
                f"[{_STYLES[status]}]{cell}[/]"
                for status, cell in zip(Judgement, cells, strict=True)
            ),
        )
    return table


def _print_skips(console: Console, results: Sequence[Result]) -> None:
    """Print the reasons of skips, each with the number of checks."""
    reasons: dict[str, int] = {}
    for each in results:
        if each.status is Judgement.SKIPPED:
            reasons[each.reason] = reasons.get(each.reason, 0) + 1
    if reasons:
        console.print("\nskipped because")
    for reason, count in sorted(reasons.items(), key=lambda one: -one[1]):
        console.print(f"  {count:4}  {reason}", highlight=False, markup=False)
