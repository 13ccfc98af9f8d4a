"""`coterie cluster kill`: end a broker as `kill -9` does."""

import click

from coterie.cli.cluster.port import ask, detect_option, node_argument, port_options


@click.command("kill")
@node_argument
@detect_option
@port_options
def command(*, node_id: int, detect_ms: int | None) -> None:
    """End a broker as kill -9 does: its connections are reset, and nothing is answered.

    By default the others learn of it at once, and lead its partitions. Kafka's take nine seconds:
    --detect-ms 9000.
    """
    ask("POST", "brokers", node_id, "kill", detect_ms=detect_ms)
    later = f"; the others learn of it after {detect_ms} ms" if detect_ms else ""
    click.echo(f"Killed broker {node_id}{later}.")
