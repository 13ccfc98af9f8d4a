"""Run the hunt: `python -m tests.soak.turns`, or `make turns`."""

import json
import os
import resource
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import click

from tests.soak.turns.hunt import LIMIT_MS, Row, hunt
from tests.soak.turns.session import Sizes

# Other processes make a turn use up to three times as much of a processor, so rows with a long turn
# are run again on a new server, and the best of their tries counts.
_TRIES = 3

HEADER = (
    f"{'verb':<44}{'CPU ms':>7}{'search':>7}{'full':>7}{'turn ms':>9}{'waited':>8}"
    f"{'beat ms':>9}{'s':>7}  answer"
)


def line(row: Row) -> str:
    """Return a line of the table."""
    longest = row.longest
    mark = ("d" if row.reason else "*") if row.is_long else " "
    wrong = "" if row.code == row.expected else f" (expected {row.expected})"
    culprit = f"; {longest.culprit}" if longest.culprit and row.is_long else ""
    return (
        f"{row.verb:<43.43}{mark}{longest.cpu_ms:>7.1f}{longest.collecting_ms:>7.1f}"
        f"{longest.full_search_ms:>7.1f}{longest.wall_ms:>9.1f}{longest.waited_ms:>8.1f}"
        f"{row.beat_ms:>9.1f}{row.took_s:>7.2f}  {row.answer}{wrong}{culprit}"
    )


@click.command()
@click.option("--scale", default=1.0, help="A share of the limits, such as 0.1.", show_default=True)
@click.option("--verb", "words", multiple=True, help="Only verbs with this word in their name.")
@click.option("--compiled", is_flag=True, help="The compiled form, which is in build/compiled.")
@click.option("--tries", default=_TRIES, help="Runs of a verb with a long turn.", show_default=True)
@click.option("--json", "table", type=click.Path(path_type=Path), help="Write the rows there, too.")
@click.option("--log", type=click.Path(path_type=Path), help="Keep the server's output there.")
@click.option("--directory", type=click.Path(path_type=Path), help="Where the server's data is.")
def main(
    scale: float,
    words: tuple[str, ...],
    compiled: bool,
    tries: int,
    table: Path | None,
    log: Path | None,
    directory: Path | None,
) -> None:
    """Run each verb with its largest request on a server at its limits; print the longest turns.

    The columns: the most that a turn used of a processor; what of it were searches for reference
    cycles; the longest full search, which does not count; the longest turn by the clock, and how
    long it waited for a processor; the longest wait of an honest member for its heartbeat. The exit
    code is 1 if a turn used more than 20 ms of a processor and is not documented (those are marked
    with d), or if a verb was not answered as expected.
    """
    _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, most_files))

    def wanted(name: str) -> bool:
        return not words or any(word.lower() in name.lower() for word in words)

    def rows(wanted: Callable[[str], bool]) -> Iterator[Row]:
        with tempfile.TemporaryDirectory(prefix="coterie-turns-", dir=directory) as place:
            yield from hunt(Path(place), Sizes().scaled(scale), wanted, compiled=compiled, log=log)

    best: dict[str, Row] = {}
    for number in range(1, tries + 1):
        again = {name for name, row in best.items() if row.finding}
        if number > 1 and not again:
            break
        print(HEADER if number == 1 else f"once more, as try {number}:")
        for row in rows(again.__contains__ if again else wanted):
            if number == 1 or row.verb in again:
                print(line(row), flush=True)
                best[row.verb] = min(best.get(row.verb, row), row, key=_judged)
                if table is not None:
                    _write(table, list(best.values()))
    _report(list(best.values()))
    sys.exit(1 if any(row.finding for row in best.values()) else 0)


def _write(table: Path, rows: list[Row]) -> None:
    lines = [json.dumps({**row._asdict(), "longest": row.longest._asdict()}) for row in rows]
    table.write_text("\n".join([*lines, ""]))


def _judged(row: Row) -> tuple[bool, float]:
    return row.code != row.expected, row.longest.cpu_ms


def _report(rows: list[Row]) -> None:
    """Print what is wrong, what is documented, and what the machine did meanwhile."""
    findings = [row for row in rows if row.finding]
    for row in findings:
        print(f"{row.verb}: {row.finding}")
        if row.is_long and row.longest.stack:
            print("  " + " < ".join(row.longest.stack))
    for row in rows:
        if row.reason:
            print(f"{row.verb}: documented: {row.reason}")
    full_ms = max(row.longest.full_search_ms for row in rows)
    print(f"longest full search for reference cycles: {full_ms:.1f} ms, documented in ADR 51")
    print(
        f"turns: {len(findings)} of {len(rows)} verbs with findings, limit {LIMIT_MS:g} ms;"
        f" load of the machine at the end {os.getloadavg()[0]:.1f}"
    )


if __name__ == "__main__":
    main()
