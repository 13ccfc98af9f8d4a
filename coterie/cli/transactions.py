"""`coterie transactions`: list, describe, find and end transactions of any Kafka.

The names and columns are those of kafka-transactions. The keys of `--json` are listed in
documentation/reference/json_keys.tsv.
"""

import time
from collections.abc import Iterable

import click
from click.shell_completion import CompletionItem

from coterie.cli.broker import broker_options, connected
from coterie.cli.main import CommandGroup
from coterie.cli.options import json_option, suggest
from coterie.cli.output import Column, Row, assignment_text, print_json, print_rows, printable
from coterie.cli.partition_transactions import abort, describe_producers, find_hanging
from coterie.cli.values import LONG_NATURAL
from coterie.client.cluster import Cluster
from coterie.client.transaction_rows import transaction_row
from coterie.client.transactions import (
    Filter,
    describe_transactions,
    list_transactions,
    terminate_transaction,
)

_LIST_COLUMNS = [
    Column("TRANSACTIONAL-ID", "transactional_id", 20),
    Column("COORDINATOR", "coordinator_id", 12, number=True),
    Column("PRODUCER-ID", "producer_id", 12, number=True),
    Column("STATE", "state", 15),
]
_DESCRIBE_COLUMNS = [
    *_LIST_COLUMNS[:3],
    Column("PRODUCER-EPOCH", "producer_epoch", 15, number=True, short="EPOCH"),
    Column("STATE", "state", 15),
    Column("TIMEOUT-MS", "timeout_ms", 11, number=True),
    Column("START-MS", "start_ms", 14, number=True),
    Column("DURATION-MS", "duration_ms", 12, number=True),
    Column("PARTITIONS", "partitions", 15, assignment_text),
]


def _complete_ids(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the transactional ids that begin with the typed text, with their states."""

    def ids(cluster: Cluster) -> Iterable[tuple[str, str]]:
        return [
            (each.transactional_id, each.state) for each in list_transactions(cluster, Filter())
        ]

    return suggest(context, parameter, incomplete, ids)


@click.group("transactions", cls=CommandGroup)
@broker_options
def command() -> None:
    """List, describe, find and end transactions of any Kafka."""


for _command in (describe_producers, find_hanging, abort):
    command.add_command(_command)


@command.command("list")
@click.option("--state", "states", multiple=True, metavar="STATE", help="Only this; repeatable.")
@click.option(
    "--producer-id",
    "producer_ids",
    multiple=True,
    type=LONG_NATURAL,
    metavar="ID",
    help="Only of this one.",
)
@click.option(
    "--longer-than", "duration_ms", type=LONG_NATURAL, metavar="MS", help="Open for longer."
)
@click.option("--pattern", metavar="REGEX", help="Only ids that match as a whole (RE2).")
@json_option
@broker_options
def list_command(
    *,
    states: tuple[str, ...],
    producer_ids: tuple[int, ...],
    duration_ms: int | None,
    pattern: str | None,
    as_json: bool,
) -> None:
    """List transactional ids, with the state of each."""
    least_ms = -1 if duration_ms is None else duration_ms
    with connected() as cluster:
        found = list_transactions(cluster, Filter(states, producer_ids, least_ms, pattern))
    rows: list[Row] = [each._asdict() for each in found]
    print_rows(_LIST_COLUMNS, rows, as_json=as_json)


@command.command("describe")
@click.argument(
    "transactional_ids", metavar="ID...", nargs=-1, required=True, shell_complete=_complete_ids
)
@json_option
@broker_options
def describe(*, transactional_ids: tuple[str, ...], as_json: bool) -> None:
    """Show producer, times and partitions of transactional ids."""
    with connected() as cluster:
        found = describe_transactions(cluster, transactional_ids)
    now_ms = time.time_ns() // 1_000_000
    rows = [transaction_row(name, found[name], now_ms) for name in transactional_ids]
    print_rows(_DESCRIBE_COLUMNS, rows, as_json=as_json)


@command.command("terminate")
@click.argument("transactional_id", metavar="ID", shell_complete=_complete_ids)
@json_option
@broker_options
def terminate(*, transactional_id: str, as_json: bool) -> None:
    """Abort the open transaction of a transactional id, and fence its producer.

    A producer that still runs with this id fails at its next request. The id itself stays, and its
    next producer goes on with it.
    """
    with connected() as cluster:
        found = terminate_transaction(cluster, transactional_id)
    if as_json:
        print_json({"transactional_id": transactional_id, **found._asdict(), "terminated": True})
        return
    name = printable(transactional_id)
    if found.was_open:
        click.echo(f"Transaction of '{name}' aborted.")
    elif found.was_open is False:
        click.echo(f"No transaction of '{name}' was open.")
    click.echo(f"Producer {found.producer_id} is fenced below epoch {found.producer_epoch}.")
