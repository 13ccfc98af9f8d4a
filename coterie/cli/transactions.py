"""`coterie transactions`: list, describe, find and abort transactions of any Kafka.

The names and columns are those of kafka-transactions. The keys of `--json` are listed in
docs/command-line.md.
"""

import time
from collections.abc import Iterable

import click
from click.shell_completion import CompletionItem

from coterie.cli.broker import broker_options, connected
from coterie.cli.errors import CommandFailed, no_such_topics
from coterie.cli.main import CommandGroup
from coterie.cli.options import complete_topics, json_option, suggest
from coterie.cli.output import Column, Row, assignment_text, print_json, print_table, printable
from coterie.client.cluster import Cluster, TopicPartition
from coterie.client.topics import describe_topics
from coterie.client.transactions import (
    DescribedTransaction,
    Filter,
    OpenTransaction,
    abort_in_partition,
    describe_transactions,
    hanging_transactions,
    list_transactions,
    open_transactions,
)

_NO_TIME = -1
_MS_PER_MINUTE = 60_000

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
_OPEN_COLUMNS = [
    Column("TOPIC", "topic", 15),
    Column("PARTITION", "partition", 10, number=True),
    Column("PRODUCER-ID", "producer_id", 12, number=True),
    Column("PRODUCER-EPOCH", "producer_epoch", 15, number=True, short="EPOCH"),
    Column("COORDINATOR-EPOCH", "coordinator_epoch", 18, number=True),
    Column("START-OFFSET", "start_offset", 13, number=True),
    Column("LAST-TIMESTAMP-MS", "last_timestamp_ms", 18, number=True),
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
    """List, describe, find and abort transactions of any Kafka."""


@command.command("list")
@click.option("--state", "states", multiple=True, metavar="STATE", help="Only this; repeatable.")
@click.option(
    "--producer-id", "producer_ids", multiple=True, type=int, metavar="ID", help="Only of this one."
)
@click.option(
    "--longer-than", "duration_ms", type=click.IntRange(0), metavar="MS", help="Open for longer."
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
    if as_json:
        print_json(rows)
    else:
        print_table(_LIST_COLUMNS, rows)


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
    rows = [_described_row(name, found[name], now_ms) for name in transactional_ids]
    if as_json:
        print_json(rows)
    else:
        print_table(_DESCRIBE_COLUMNS, rows)


def _described_row(name: str, described: DescribedTransaction, now_ms: int) -> Row:
    state = described.state
    start_ms = state.transaction_start_time_ms
    has_started = start_ms != _NO_TIME
    return {
        "transactional_id": name,
        "coordinator_id": described.coordinator_id,
        "producer_id": state.producer_id,
        "producer_epoch": state.producer_epoch,
        "state": state.transaction_state,
        "timeout_ms": state.transaction_timeout_ms,
        "start_ms": start_ms if has_started else None,
        "duration_ms": max(0, now_ms - start_ms) if has_started else None,
        "partitions": {each.topic: each.partitions for each in state.topics},
    }


_topic_option = click.option(
    "--topic", metavar="TOPIC", shell_complete=complete_topics, help="Look in this topic only."
)


@command.command("find-hanging")
@_topic_option
@click.option("--partition", type=click.IntRange(0), metavar="NUMBER", help="And this partition.")
@click.option(
    "--max-transaction-timeout",
    "timeout_minutes",
    type=click.IntRange(0),
    default=15,
    show_default=True,
    metavar="MINUTES",
    help="transaction.max.timeout.ms of the brokers.",
)
@json_option
@broker_options
def find_hanging(
    *, topic: str | None, partition: int | None, timeout_minutes: int, as_json: bool
) -> None:
    """Find transactions that are open in a partition and that no coordinator will end."""
    if partition is not None and topic is None:
        raise click.UsageError("--partition needs --topic.")
    before_ms = time.time_ns() // 1_000_000 - timeout_minutes * _MS_PER_MINUTE
    with connected() as cluster:
        partitions = _partitions(cluster, topic, partition)
        rows = [_open_row(each) for each in hanging_transactions(cluster, partitions, before_ms)]
    if as_json:
        print_json(rows)
    else:
        print_table(_OPEN_COLUMNS, rows)


def _partitions(cluster: Cluster, topic: str | None, partition: int | None) -> list[TopicPartition]:
    if topic is not None and partition is not None:
        return [(topic, partition)]
    topics = describe_topics(cluster, None if topic is None else [topic])
    if topic is not None and topics[0].error:
        raise no_such_topics([topic])
    return [(each.name, index) for each in topics for index in range(len(each.partitions))]


def _open_row(found: OpenTransaction) -> Row:
    topic, index = found.partition
    return {
        "topic": topic,
        "partition": index,
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "coordinator_epoch": found.coordinator_epoch,
        "start_offset": found.start_offset,
        "last_timestamp_ms": found.last_timestamp_ms,
    }


@command.command("abort")
@click.option(
    "--topic", required=True, metavar="TOPIC", shell_complete=complete_topics, help="The topic."
)
@click.option(
    "--partition", required=True, type=click.IntRange(0), metavar="NUMBER", help="The partition."
)
@click.option(
    "--start-offset",
    required=True,
    type=click.IntRange(0),
    metavar="OFFSET",
    help="The first offset of the transaction, from find-hanging.",
)
@json_option
@broker_options
def abort(*, topic: str, partition: int, start_offset: int, as_json: bool) -> None:
    """Abort a hanging transaction in one partition, so that readers go on behind it.

    Do this only with transactions that find-hanging shows: the others end by themselves.
    """
    with connected() as cluster:
        found = [
            each
            for each in open_transactions(cluster, [(topic, partition)])
            if each.start_offset == start_offset
        ]
        if not found:
            place = printable(f"{topic}-{partition}")
            raise CommandFailed(
                f"No transaction is open in {place} that begins at offset {start_offset}.",
                "coterie transactions find-hanging shows the open ones.",
            )
        abort_in_partition(cluster, found[0])
    if as_json:
        print_json({**_open_row(found[0]), "aborted": True})
    else:
        click.echo(f"Transaction of producer {found[0].producer_id} aborted.")
