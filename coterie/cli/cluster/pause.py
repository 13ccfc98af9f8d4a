"""`coterie cluster pause`: let a broker be silent."""

import click

from coterie.cli.cluster.port import ask, detect_option, node_argument, port_options


@click.command("pause")
@node_argument
@detect_option
@port_options
def command(*, node_id: int, detect_ms: int | None) -> None:
    """Pause a broker, as SIGSTOP does: it keeps its connections, and is silent.

    Without --detect-ms the others never take it for dead. `coterie cluster resume` lets it go on.
    """
    ask("POST", "brokers", node_id, "pause", detect_ms=detect_ms)
    later = "" if detect_ms is None else f"; the others take it for dead after {detect_ms} ms"
    click.echo(f"Paused broker {node_id}{later}.")
