"""Run programs against a broker: `python -m tests.interop [NAME...]`."""

import json
import signal
import sys
import tempfile
import time
from fnmatch import fnmatch
from pathlib import Path

import click

from coterie.lab.errors import WrongInput
from coterie.lab.live.parts import PartMissing
from coterie.processes import ProcessFailed
from tests.interop.model import Failed, Parts, Program, Skipped, all_programs, surroundings

_TERMINATED = 128 + signal.SIGTERM
_MARKS = {"pass": "green", "skip": "yellow", "FAIL": "red"}


@click.command()
@click.argument("names", nargs=-1)
@click.option("--bootstrap-server", help="A broker that is there, instead of one for each program.")
@click.option("--only", multiple=True, help="Parts of a program that has parts (patterns).")
@click.option(
    "--keep",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep results of parts in this directory, and go on where an earlier run ended.",
)
@click.option("--list", "lists", is_flag=True, help="List the programs.")
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON, too.")
def main(
    names: tuple[str, ...],
    bootstrap_server: str | None,
    only: tuple[str, ...],
    keep: Path | None,
    *,
    lists: bool,
    as_json: bool,
) -> None:
    """Run real programs against a broker: all, or those whose names are given (patterns)."""
    programs = all_programs()
    chosen = [
        each
        for each in programs
        if not names or any(fnmatch(each.name, pattern) for pattern in names)
    ]
    if not chosen:
        known = ", ".join(each.name for each in programs)
        raise click.UsageError(f"no program has a name like {' '.join(names)}; there are {known}")
    if lists:
        for each in chosen:
            click.echo(f"{each.name:24} {each.sentence}")
        return
    # Children and brokers are ended when the context managers are left.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(_TERMINATED))
    results = []
    with tempfile.TemporaryDirectory(prefix="coterie-interop-") as directory:
        for each in chosen:
            click.echo(f"{each.name} ...", err=True)
            parts = Parts(only, keep and keep.absolute() / each.name)
            result = _run(each, bootstrap_server, Path(directory) / each.name, parts)
            results.append(result)
            click.secho(f"{result['outcome']:5}", fg=_MARKS[str(result["outcome"])], nl=False)
            click.echo(f"{each.name:24} {result['seconds']:6} s  {result['reason']}")
    if as_json:
        click.echo(json.dumps({"results": results}, indent=2))
    failed = sum(result["outcome"] == "FAIL" for result in results)
    skipped = sum(result["outcome"] == "skip" for result in results)
    click.echo(f"{len(results)} programs: {failed} failed, {skipped} skipped")
    sys.exit(bool(failed))


def _run(
    program: Program, bootstrap: str | None, directory: Path, parts: Parts
) -> dict[str, str | float]:
    """Run a program; return its row."""
    began_s = time.monotonic()
    outcome, reason = "pass", ""
    try:
        with surroundings(program, bootstrap, directory, parts) as found:
            program.run(found)
            reason = "; ".join(found.facts)
    except (Skipped, PartMissing) as skipped:
        outcome, reason = "skip", str(skipped)
    except (Failed, WrongInput, ProcessFailed) as failed:
        outcome, reason = "FAIL", str(failed)
    seconds = round(time.monotonic() - began_s, 1)
    return {"name": program.name, "outcome": outcome, "seconds": seconds, "reason": reason}


if __name__ == "__main__":
    main()
