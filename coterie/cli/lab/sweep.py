"""`coterie lab sweep`: many runs into a directory."""

import os
import sys

import click

from coterie.cli.errors import CommandFailed
from coterie.cli.lab.errors import lab_errors, need_pyarrow
from coterie.cli.output import note

_INTERRUPTED = 130


@click.command("sweep")
@click.option(
    "--scenario", "scenarios", multiple=True, help="A scenario; repeatable. [default: all]"
)
@click.option("--machine", "machines", multiple=True, help="A machine; repeatable. [default: all]")
@click.option("--members", metavar="N,...", help="Sizes. [default: those of the scenarios]")
@click.option("--seeds", default="0..19", show_default=True, metavar="A..B|N,...", help="Seeds.")
@click.option(
    "--set", "pairs", multiple=True, metavar="KEY=A,B,...", help="Values of a setting; repeatable."
)
@click.option("--output", required=True, metavar="DIR", type=click.Path(file_okay=False))
@click.option(
    "--processes", type=click.IntRange(1, 256), help="Runs at once. [default: the processors]"
)
def command(
    *,
    scenarios: tuple[str, ...],
    machines: tuple[str, ...],
    members: str | None,
    seeds: str,
    pairs: tuple[str, ...],
    output: str,
    processes: int | None,
) -> None:
    """Run scenarios under machines, for several seeds, sizes and settings, into DIR.

    The same command continues a sweep that was interrupted. With other sizes, the number of
    partitions grows with that of the members.
    """
    need_pyarrow()
    from coterie.lab.grid import plan_of
    from coterie.lab.store import Store
    from coterie.lab.summary import summary_rows
    from coterie.lab.sweep import run_sweep

    store = Store(output)
    shown = sys.stderr.isatty()

    def progress(done: int, total: int, left_s: float) -> None:
        if shown:
            text = f"\r{done:,} of {total:,} runs, about {left_s:,.0f} s left  "
            click.echo(text, err=True, nl=False)

    with lab_errors():
        plan = plan_of(scenarios, machines, members, seeds, pairs)
        plan.check()
        store.begin(plan.text())
        try:
            violations = run_sweep(plan, store, processes or os.cpu_count() or 1, progress)
        except KeyboardInterrupt:
            note(f"\nInterrupted; {len(store.keys()):,} runs are stored. The same command goes on.")
            sys.exit(_INTERRUPTED)
        rows = store.runs()
        store.write_summary(summary_rows(rows))
    if shown:
        click.echo(err=True)
    note(f"{len(rows):,} runs are in {output}")
    click.echo(output)
    if violations:
        raise CommandFailed(
            f"{len(violations)} runs have broken an invariant: {'; '.join(violations[:3])}"
        )
