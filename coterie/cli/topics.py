"""`coterie topics`: list, create, describe and delete topics of any Kafka.

What is printed reads as what kafka-topics prints; the keys of `--json` are listed in
docs/command-line.md.
"""

from typing import Any

import click

from coterie.cli.broker import CommandFailed, broker_options, connected
from coterie.cli.names import complete_topics
from coterie.cli.output import (
    Column,
    Row,
    json_option,
    print_json,
    print_styled,
    print_table,
    printable,
)
from coterie.cli.refusals import no_such_topics
from coterie.client.errors import Refused, error_name
from coterie.client.topics import (
    BROKER_DEFAULT,
    Change,
    Partition,
    Topic,
    create_topic,
    delete_topics,
    describe_topics,
    topic_configs,
)
from coterie.protocol.errors import ErrorCode

_LIST_COLUMNS = [
    Column("TOPIC", "topic", 25),
    Column("PARTITIONS", "partition_count", 10),
    Column("REPLICATION-FACTOR", "replication_factor", 18),
    Column("TOPIC-ID", "topic_id", 22),
]

# What to do about a topic that was not created.
_REMEDIES: dict[int, str] = {
    ErrorCode.TOPIC_ALREADY_EXISTS: "Choose another name, or say --if-not-exists.",
    ErrorCode.INVALID_REPLICATION_FACTOR: "There are fewer brokers than replicas asked for.",
    ErrorCode.INVALID_TOPIC_EXCEPTION: (
        "A name has up to 249 letters, digits, dots, underscores and hyphens."
    ),
}


@click.group(short_help="List, create, describe and delete topics.")
@broker_options
def topics() -> None:
    """Topics of any Kafka broker, over the wire protocol."""


@topics.command("list", short_help="List the topics.")
@click.option("--exclude-internal", is_flag=True, help="Leave out __consumer_offsets and its like.")
@click.option("--verbose", is_flag=True, help="Show partitions, replicas and ids.")
@json_option
@broker_options
def list_command(*, exclude_internal: bool, verbose: bool, as_json: bool) -> None:
    """List the topics: their names, one a line, or a table."""
    with connected() as cluster:
        found = describe_topics(cluster)
    rows = [_summary(topic) for topic in found if not (exclude_internal and topic.internal)]
    if as_json:
        print_json(rows)
    elif verbose:
        print_table(_LIST_COLUMNS, rows)
    else:
        for row in rows:
            click.echo(printable(row["topic"]))


@topics.command("create", short_help="Create a topic.")
@click.argument("name", metavar="NAME")
@click.option(
    "--partitions",
    type=click.IntRange(min=1),
    metavar="N",
    help="By default the broker's num.partitions.",
)
@click.option(
    "--replication-factor",
    type=click.IntRange(1, 32767),
    metavar="N",
    help="By default the broker's.",
)
@click.option(
    "--config",
    "configs",
    multiple=True,
    metavar="KEY=VALUE",
    help="A setting of the topic; repeatable.",
)
@click.option("--if-not-exists", is_flag=True, help="Do nothing when it exists.")
@json_option
@broker_options
def create(
    *,
    name: str,
    partitions: int | None,
    replication_factor: int | None,
    configs: tuple[str, ...],
    if_not_exists: bool,
    as_json: bool,
) -> None:
    """Create a topic."""
    settings = dict(_setting(config) for config in configs)
    with connected() as cluster:
        change = create_topic(
            cluster,
            name,
            partitions or BROKER_DEFAULT,
            replication_factor or BROKER_DEFAULT,
            settings,
        )
    exists = change.error == ErrorCode.TOPIC_ALREADY_EXISTS and if_not_exists
    if as_json:
        print_json(_outcome(change, "created"))
    elif exists:
        click.echo(f"Topic '{printable(name)}' already exists.")
    elif not change.error:
        click.echo(f"Created topic '{printable(name)}'.")
    if change.error and not exists:
        refusal = Refused(
            change.error,
            f"Topic '{printable(name)}' was not created",
            change.message,
            _REMEDIES.get(change.error, ""),
        )
        raise CommandFailed(refusal.cause, refusal.remedy)


@topics.command("delete", short_help="Delete topics with all their records.")
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=complete_topics)
@click.option("--if-exists", is_flag=True, help="Do nothing about topics that do not exist.")
@json_option
@broker_options
def delete(*, names: tuple[str, ...], if_exists: bool, as_json: bool) -> None:
    """Delete topics with all their records."""
    with connected() as cluster:
        changes = delete_topics(cluster, names)
    if as_json:
        print_json([_outcome(change, "deleted") for change in changes])
    else:
        for change in changes:
            if not change.error:
                click.echo(f"Deleted topic '{printable(change.name)}'.")
    absent = [c.name for c in changes if c.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    refused = [c for c in changes if c.error and c.name not in absent]
    if refused:
        raise CommandFailed(
            "\n".join(
                Refused(c.error, f"Topic '{printable(c.name)}' was not deleted", c.message).cause
                for c in refused
            )
        )
    if absent and not if_exists:
        raise no_such_topics(absent)


@topics.command("describe", short_help="Show partitions, replicas and settings of topics.")
@click.argument("names", metavar="[NAME...]", nargs=-1, shell_complete=complete_topics)
@json_option
@broker_options
def describe(*, names: tuple[str, ...], as_json: bool) -> None:
    """Show partitions, replicas and settings of topics; of all topics when none is named."""
    with connected() as cluster:
        described = describe_topics(cluster, names or None)
        found = [topic for topic in described if not topic.error]
        configs = topic_configs(cluster, [topic.name for topic in found])
    if as_json:
        print_json([_details(topic, configs.get(topic.name, {})) for topic in found])
    else:
        for topic in found:
            _print_topic(topic, configs.get(topic.name, {}))
    for topic in described:
        if topic.error not in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            refusal = Refused(topic.error, f"Topic '{printable(topic.name)}'")
            raise CommandFailed(refusal.cause, refusal.remedy)
    absent = [topic.name for topic in described if topic.error]
    if absent:
        raise no_such_topics(absent)


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise click.UsageError(f"Invalid value for --config: {text!r} is no KEY=VALUE.")
    return key.strip(), value


def _outcome(change: Change, done: str) -> Row:
    return {
        "topic": change.name,
        done: not change.error,
        "error": error_name(change.error) if change.error else None,
    }


def _summary(topic: Topic) -> Row:
    return {
        "topic": topic.name,
        "topic_id": topic.topic_id,
        "internal": topic.internal,
        "partition_count": len(topic.partitions),
        "replication_factor": topic.replication_factor,
    }


def _details(topic: Topic, configs: dict[str, str]) -> Row:
    return {
        **_summary(topic),
        "configs": configs,
        "partitions": [_partition_row(partition) for partition in topic.partitions],
    }


def _partition_row(partition: Partition) -> Row:
    return {
        "partition": partition.partition_index,
        "leader": partition.leader,
        "replicas": partition.replicas,
        "isr": partition.in_sync,
    }


def _print_topic(topic: Topic, configs: dict[str, str]) -> None:
    """A topic as kafka-topics prints it: one line, and an indented one for each partition."""
    name = topic.name
    settings = ",".join(f"{key}={value}" for key, value in configs.items())
    _print_pairs(
        "",
        {
            "Topic": name,
            "TopicId": topic.topic_id,
            "PartitionCount": len(topic.partitions),
            "ReplicationFactor": topic.replication_factor,
            "Configs": settings,
        },
    )
    for partition in topic.partitions:
        pairs = {
            "Topic": name,
            "Partition": partition.partition_index,
            "Leader": "none" if partition.leader is None else partition.leader,
            "Replicas": ",".join(map(str, partition.replicas)),
            "Isr": ",".join(map(str, partition.in_sync)),
        }
        degraded = partition.leader is None or len(partition.in_sync) < len(partition.replicas)
        _print_pairs("\t", pairs, "red" if degraded else "")


def _print_pairs(indent: str, pairs: dict[str, Any], style: str = "") -> None:
    parts: list[tuple[str, str]] = []
    for n, (key, value) in enumerate(pairs.items()):
        text = "" if value is None else printable(str(value))
        parts += [("\t" if n else indent, ""), (f"{key}: ", "dim"), (text, style)]
    print_styled(parts)
