"""`coterie lab live`: a scenario with real processes."""

import os
import sys
from pathlib import Path

import click

from coterie.cli.errors import INTERRUPTED, CommandFailed
from coterie.cli.lab.errors import lab_errors, need_pyarrow, settings_of
from coterie.cli.lab.table import COLUMNS, row_texts
from coterie.cli.options import json_option
from coterie.cli.output import note, print_json, print_table
from coterie.cli.values import COUNT, LONG, NATURAL
from coterie.lab.summary import size_text

_CLEAR_LINE = "\r\x1b[K"


@click.command("live")
@click.argument("scenario")
@click.option(
    "--client", required=True, metavar="NAME",
    help="Who takes part: aiokafka, kafka-python, confluent, confluent-share, connect,"
    " kafka-streams, old-consumer, old-consumer-java or rocketmq.",
)  # fmt: skip
@click.option(
    "--machine",
    default="",
    metavar="NAME",
    help="How: eager-3, static, cooperative, consumer, share.",
)
@click.option(
    "--bootstrap-server", "bootstrap", default="", metavar="H:P",
    help="A broker that runs; without, one is started for the run.",
)  # fmt: skip
@click.option(
    "--command-config", "properties", metavar="FILE",
    type=click.Path(exists=True, dir_okay=False),
    help="Client properties with TLS and SASL settings, for the broker of --bootstrap-server.",
)  # fmt: skip
@click.option(
    "--zookeeper", default="", metavar="H:P", help="A ZooKeeper that runs, for clients of that era."
)
@click.option("--members", type=NATURAL, metavar="N", help="Members at the beginning.")
@click.option("--partitions", type=NATURAL, metavar="N", help="Partitions.")
@click.option(
    "--seed", type=LONG, metavar="N", help="Seed of the script; by default the next unused one."
)
@click.option(
    "--form", "form_s", type=COUNT, metavar="SECONDS",
    help="How long the group forms before the script; by default as the scenario says.",
)  # fmt: skip
@click.option(
    "--set", "pairs", multiple=True, metavar="KEY=VALUE", help="Change a setting; repeatable."
)
@click.option(
    "--output", required=True, metavar="DIR", type=click.Path(file_okay=False),
    help="Directory for results; each run is added.",
)  # fmt: skip
@json_option
def command(
    *,
    scenario: str,
    client: str,
    machine: str,
    bootstrap: str,
    properties: str | None,
    zookeeper: str,
    members: int | None,
    partitions: int | None,
    seed: int | None,
    form_s: int | None,
    pairs: tuple[str, ...],
    output: str,
    as_json: bool,
) -> None:
    """Run SCENARIO with real processes, and measure what the members do.

    The script is that of `coterie lab run`, in real time: processes are started, stopped, killed
    and paused. `coterie lab report DIR` shows the results as measured ones.
    """
    need_pyarrow()
    from coterie.lab.live.cells import live_scenario
    from coterie.lab.live.drive import Progress
    from coterie.lab.live.parts import PartMissing
    from coterie.lab.live.run import LiveOptions, add_to_store, free_seed, live_store, run_live
    from coterie.lab.strips import legend, strip_lines

    def show(progress: Progress) -> None:
        if sys.stderr.isatty():
            text = (
                f"{progress.phase}: {progress.passed_s:.0f} s, {progress.members} members,"
                f" {progress.unowned} partitions without a reader,"
                f" about {progress.left_s:.0f} s left"
            )
            sys.stderr.write(_CLEAR_LINE + text)
            sys.stderr.flush()

    with lab_errors():
        chosen = live_scenario(scenario).resized(members, partitions)
        store = live_store(output)
        number = free_seed(store, chosen, client, machine) if seed is None else seed
        options = LiveOptions(
            client, machine, bootstrap, zookeeper, number, form_s, settings_of(pairs),
            properties or "",
        )  # fmt: skip
        folder = _new_folder(Path(output) / "processes", f"{scenario}-{client}".replace("/", "-"))
        try:
            result = run_live(chosen, options, folder, note, show)
        except PartMissing as error:
            raise CommandFailed(str(error)) from None
        except KeyboardInterrupt:
            note("\nInterrupted: all processes have ended, and nothing is stored.")
            sys.exit(INTERRUPTED)
        finally:
            if sys.stderr.isatty():
                sys.stderr.write(_CLEAR_LINE)
        add_to_store(store, result)
    outcome = result.outcome
    if as_json:
        print_json([outcome.row()])
        return
    click.echo(
        f"{chosen.title}: {size_text(chosen.members, chosen.partitions)}; measured with {client} on"
        f" {outcome.settings['broker']}, seed {number}"
    )
    click.echo()
    print_table(COLUMNS, [row_texts(outcome.machine, outcome.metrics)])
    for line in ("", *strip_lines(outcome), "", *legend()):
        click.echo(line)


def _new_folder(base: Path, name: str) -> Path:
    """Return a directory that does not exist, for the logs and lines of a run."""
    try:
        number = len(os.listdir(base))
    except OSError:
        number = 0
    while (base / f"{number:03}-{name}").exists():
        number += 1
    return base / f"{number:03}-{name}"
