"""`coterie cluster elect`: let the first replicas lead again."""

import click

from coterie.cli.cluster.port import ask, complete_led_topics, port_options
from coterie.cli.output import note, printable
from coterie.cli.values import NATURAL


@click.command("elect")
@click.argument("topic", metavar="[TOPIC]", required=False, shell_complete=complete_led_topics)
@click.argument("partition", metavar="[PARTITION]", required=False, type=NATURAL)
@click.option("--unclean", is_flag=True, help="Let any live replica lead what nothing leads.")
@port_options
def command(*, topic: str | None, partition: int | None, unclean: bool) -> None:
    """Let the first replicas lead again: of a partition, a topic, or all topics."""
    elected = ask("POST", "cluster", "elect", topic=topic, partition=partition, unclean=unclean)
    for name, node_id in elected.items():
        click.echo(f"Broker {node_id} leads {printable(name)}.")
    if not elected:
        note("No partition needs an election.")
