"""`coterie lab sweep`: many runs into a directory."""

import logging
import os
import signal
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import click

from coterie.cli.errors import INTERRUPTED, CommandFailed
from coterie.cli.lab.errors import lab_errors, need_pyarrow
from coterie.cli.output import note
from coterie.cli.pipeline.session import key_values, pipeline_errors, spark_session
from coterie.cli.values import WholeNumber
from coterie.client.names import counted

if TYPE_CHECKING:
    from coterie.lab.store import Store
    from coterie.lab.sweep import Plan


@click.command("sweep")
@click.option(
    "--scenario",
    "scenarios",
    multiple=True,
    metavar="NAME",
    help="A scenario; repeatable. [default: all]",
)
@click.option(
    "--machine",
    "machines",
    multiple=True,
    metavar="NAME",
    help="A machine; repeatable. [default: all]",
)
@click.option("--members", metavar="N,...", help="Sizes. [default: those of the scenarios]")
@click.option("--seeds", default="0..19", show_default=True, metavar="A..B|N,...", help="Seeds.")
@click.option(
    "--set", "pairs", multiple=True, metavar="KEY=A,B,...", help="Values of a setting; repeatable."
)
@click.option("--output", required=True, metavar="DIR", type=click.Path(file_okay=False))
@click.option(
    "--processes",
    type=WholeNumber(1, 256),
    metavar="N",
    help="Runs at once. [default: the processors]",
)
@click.option(
    "--master",
    metavar="URL",
    help="Use Spark instead of processes: local[2], spark://host:7077, yarn, k8s://... Its workers"
    " must see DIR under the same path.",
)
@click.option(
    "--conf",
    "conf",
    multiple=True,
    metavar="KEY=VALUE",
    callback=key_values,
    help="Setting of Spark, with --master; repeatable.",
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
    master: str | None,
    conf: dict[str, str],
) -> None:
    """Run scenarios under machines, for several seeds, sizes and settings, into DIR.

    The same command continues a sweep that was interrupted. With other sizes, the number of
    partitions grows with that of the members. With --master the runs are made by Spark; a sweep
    may be begun with processes and continued with Spark, and the other way round.
    """
    if master is None and conf:
        raise click.UsageError("--conf needs --master")
    if master is not None and processes is not None:
        raise click.UsageError("give either --processes or --master")
    need_pyarrow()
    from coterie.lab.grid import plan_of
    from coterie.lab.store import Store
    from coterie.lab.summary import summary_rows

    store = Store(output)
    shown = sys.stderr.isatty()
    what = "runs" if master is None else "tasks"

    def progress(done: int, total: int, left_s: float) -> None:
        if shown:
            text = f"\r{done:,} of {total:,} {what}, about {left_s:,.0f} s left  "
            click.echo(text, err=True, nl=False)

    with lab_errors():
        plan = plan_of(scenarios, machines, members, seeds, pairs)
        plan.check()
        store.begin(plan.text())
        try:
            if master is None:
                from coterie.lab.sweep import run_sweep

                violations = run_sweep(plan, store, processes or os.cpu_count() or 1, progress)
            else:
                violations = _on_spark(plan, store, master, conf, progress)
        except KeyboardInterrupt:
            stored = counted(len(store.keys()), "run", "is", "are")
            note(f"\nInterrupted; {stored} stored. The same command goes on.")
            sys.exit(INTERRUPTED)
        rows = store.runs()
        store.write_summary(summary_rows(rows))
    if shown:
        click.echo(err=True)
    note(f"{counted(len(rows), 'run', 'is', 'are')} in {output}")
    click.echo(output)
    if violations:
        raise CommandFailed(
            f"{counted(len(violations), 'run', 'has', 'have')} broken an invariant:"
            f" {'; '.join(violations[:3])}"
        )


def _on_spark(
    plan: "Plan",
    store: "Store",
    master: str,
    conf: dict[str, str],
    progress: Callable[[int, int, float], None],
) -> list[str]:
    """Run what is missing of a sweep on Spark; return the violations of all its runs."""
    # py4j logs the stack traces of an interrupted call.
    logging.disable()
    with pipeline_errors(), spark_session("coterie lab sweep", master, conf, little=True) as spark:
        from coterie.lab.sweep_on_spark import run_sweep_on_spark
        from coterie.pipeline.spark_engine import SparkEngine

        # Without it PySpark's handler would use the connection of the call that waits.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        engine = SparkEngine(spark)
        cores = spark.sparkContext.defaultParallelism
        with ThreadPoolExecutor(1) as thread:
            running = thread.submit(run_sweep_on_spark, plan, store, engine, cores, progress)
            try:
                return running.result()
            except KeyboardInterrupt:
                engine.cancel()
                running.exception()
                raise
