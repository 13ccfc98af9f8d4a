"""`coterie transactions` in partitions: describe-producers, find-hanging and abort.

The names and columns are those of kafka-transactions.
"""

import time

import click

from coterie.cli.broker import broker_options, connected
from coterie.cli.errors import CommandFailed, no_such_topics
from coterie.cli.options import complete_topics, json_option
from coterie.cli.output import Column, print_json, print_rows, printable
from coterie.cli.values import LONG_NATURAL, NATURAL, SHORT_NATURAL
from coterie.client.cluster import Cluster, TopicPartition
from coterie.client.producers import (
    Producer,
    abort_in_partition,
    hanging_transactions,
    open_transactions,
)
from coterie.client.producers import describe_producers as producers_of
from coterie.client.topics import describe_topics
from coterie.client.transaction_rows import PRODUCER_KEYS, PRODUCER_ROW_KEYS, producer_row

_MS_PER_MINUTE = 60_000

_PRODUCER_COLUMNS = [
    Column("PRODUCER-ID", "producer_id", 12, number=True),
    Column("PRODUCER-EPOCH", "producer_epoch", 15, number=True, short="EPOCH"),
    Column("COORDINATOR-EPOCH", "coordinator_epoch", 18, number=True),
    Column("LAST-SEQUENCE", "last_sequence", 14, number=True),
    Column("LAST-TIMESTAMP-MS", "last_timestamp_ms", 18, number=True),
    Column("START-OFFSET", "start_offset", 13, number=True),
]
_HANGING_COLUMNS = [
    Column("TOPIC", "topic", 15),
    Column("PARTITION", "partition", 10, number=True),
    *_PRODUCER_COLUMNS[:3],
    Column("START-OFFSET", "start_offset", 13, number=True),
    Column("LAST-TIMESTAMP-MS", "last_timestamp_ms", 18, number=True),
    Column("DURATION-MS", "duration_ms", 12, number=True),
]

_partition_option = click.option(
    "--partition", required=True, type=NATURAL, metavar="NUMBER", help="The partition."
)
_topic_option = click.option(
    "--topic", required=True, metavar="TOPIC", shell_complete=complete_topics, help="The topic."
)
_broker_option = click.option(
    "--broker-id",
    type=NATURAL,
    metavar="ID",
    help="Ask this broker, which has a replica, instead of the leader.",
)


@click.command("describe-producers")
@_topic_option
@_partition_option
@_broker_option
@json_option
@broker_options
def describe_producers(*, topic: str, partition: int, broker_id: int | None, as_json: bool) -> None:
    """Show the producers that a partition remembers, and their open transactions."""
    with connected() as cluster:
        found = producers_of(cluster, [(topic, partition)], broker_id)
    rows = [producer_row(each) for each in found]
    print_rows(_PRODUCER_COLUMNS, rows, as_json=as_json)


@click.command("find-hanging")
@click.option(
    "--topic", metavar="TOPIC", shell_complete=complete_topics, help="Look in this topic only."
)
@click.option("--partition", type=NATURAL, metavar="NUMBER", help="And this partition.")
@click.option(
    "--broker-id",
    type=NATURAL,
    metavar="ID",
    help="Look in the replicas of this broker only.",
)
@click.option(
    "--max-transaction-timeout",
    "timeout_minutes",
    type=NATURAL,
    default=15,
    show_default=True,
    metavar="MINUTES",
    help="transaction.max.timeout.ms of the brokers.",
)
@json_option
@broker_options
def find_hanging(
    *,
    topic: str | None,
    partition: int | None,
    broker_id: int | None,
    timeout_minutes: int,
    as_json: bool,
) -> None:
    """Find transactions that are open in a partition and that no coordinator will end."""
    if partition is not None and topic is None:
        raise click.UsageError("--partition needs --topic.")
    now_ms = time.time_ns() // 1_000_000
    before_ms = now_ms - timeout_minutes * _MS_PER_MINUTE
    with connected() as cluster:
        partitions = _partitions(cluster, topic, partition, broker_id)
        found = hanging_transactions(cluster, partitions, before_ms, broker_id)
    rows = [
        {**producer_row(each), "duration_ms": now_ms - each.last_timestamp_ms} for each in found
    ]
    print_rows(_HANGING_COLUMNS, rows, as_json=as_json)


def _partitions(
    cluster: Cluster, topic: str | None, partition: int | None, broker_id: int | None
) -> list[TopicPartition]:
    if topic is not None and partition is not None:
        return [(topic, partition)]
    topics = describe_topics(cluster, None if topic is None else [topic])
    if topic is not None and topics[0].error:
        raise no_such_topics([topic])
    return [
        (named.name, each.partition_index)
        for named in topics
        for each in named.partitions
        if broker_id is None or broker_id in each.replicas
    ]


@click.command("abort")
@_topic_option
@_partition_option
@click.option(
    "--start-offset",
    type=LONG_NATURAL,
    metavar="OFFSET",
    help="The first offset of the transaction, from find-hanging.",
)
@click.option("--producer-id", type=LONG_NATURAL, metavar="ID", help="Or: the producer.")
@click.option(
    "--producer-epoch", type=SHORT_NATURAL, metavar="EPOCH", help="And the producer's epoch."
)
@click.option(
    "--coordinator-epoch",
    type=NATURAL,
    metavar="EPOCH",
    help="And the epoch of the coordinator that began the transaction.",
)
@json_option
@broker_options
def abort(
    *,
    topic: str,
    partition: int,
    start_offset: int | None,
    producer_id: int | None,
    producer_epoch: int | None,
    coordinator_epoch: int | None,
    as_json: bool,
) -> None:
    """Abort a hanging transaction in one partition, so that readers go on behind it.

    Do this only with transactions that find-hanging shows: the others end by themselves. Brokers
    before Kafka 2.8 do not show producers; with them, name the producer and both epochs.
    """
    key = (topic, partition)
    producer = (producer_id, producer_epoch, coordinator_epoch)
    if (start_offset is None) == (producer_id is None):
        raise click.UsageError("Give either --start-offset or --producer-id.")
    if start_offset is not None and producer != (None, None, None):
        raise click.UsageError("--start-offset names the transaction, without any epoch.")
    with connected() as cluster:
        if start_offset is not None:
            row = producer_row(_open_since(cluster, key, start_offset))
        elif None in producer:
            raise click.UsageError("--producer-id needs --producer-epoch and --coordinator-epoch.")
        else:
            row = dict(zip(PRODUCER_ROW_KEYS, (*key, *producer), strict=False))
        abort_in_partition(cluster, key, *(row[name] for name in PRODUCER_KEYS))
    if as_json:
        print_json({**dict.fromkeys(PRODUCER_ROW_KEYS), **row, "aborted": True})
    else:
        click.echo(f"Transaction of producer {row['producer_id']} aborted.")


def _open_since(cluster: Cluster, partition: TopicPartition, start_offset: int) -> Producer:
    """Return the producer whose transaction begins at an offset."""
    for each in open_transactions(cluster, [partition]):
        if each.start_offset == start_offset:
            return each
    place = printable("-".join(map(str, partition)))
    raise CommandFailed(
        f"No transaction is open in {place} that begins at offset {start_offset}.",
        "coterie transactions find-hanging shows the open ones.",
    )
