"""`coterie topics`: list, create, describe and delete topics of any Kafka broker, and produce.

The output has the form of kafka-topics. The keys of `--json` are listed in
documentation/reference/json_keys.tsv.
"""

from typing import Any

import click

from coterie.cli.broker import broker_options, connected
from coterie.cli.errors import CommandFailed, no_such_topics
from coterie.cli.main import CommandGroup
from coterie.cli.options import complete_topics, json_option
from coterie.cli.output import (
    Column,
    is_for_people,
    print_folded,
    print_json,
    print_line,
    print_table,
    printable,
)
from coterie.cli.topics_assign import command as assign_command
from coterie.cli.topics_produce import command as produce_command
from coterie.cli.values import COUNT, WholeNumber
from coterie.client.errors import Refused
from coterie.client.names import counted
from coterie.client.topic_rows import change_row, details_row, summary_row
from coterie.client.topics import (
    BROKER_DEFAULT,
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

_PARTITION_COLUMNS = [
    Column("  PARTITION", "partition", number=True),
    Column("LEADER", "leader", number=True),
    Column("REPLICAS", "replicas"),
    Column("ISR", "isr"),
]

# Remedies for topics that were not created.
_REMEDIES: dict[int, str] = {
    ErrorCode.TOPIC_ALREADY_EXISTS: "Choose another name, or use --if-not-exists.",
    ErrorCode.INVALID_REPLICATION_FACTOR: (
        "The replication factor can't exceed the number of brokers."
    ),
    ErrorCode.INVALID_TOPIC_EXCEPTION: (
        "A name consists of up to 249 letters, digits, dots, underscores and hyphens."
    ),
}


class _InOrder(CommandGroup):
    """A group whose help lists the commands in the order of their definitions."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names of the commands."""
        return list(self.commands)


@click.group("topics", cls=_InOrder)
@broker_options
def command() -> None:
    """List, create, describe and delete the topics of any Kafka broker."""


@command.command("list", short_help="List the topics.")
@click.option("--exclude-internal", is_flag=True, help="Leave out internal topics.")
@click.option("--verbose", is_flag=True, help="Show partitions, replicas and ids.")
@json_option
@broker_options
def list_command(*, exclude_internal: bool, verbose: bool, as_json: bool) -> None:
    """List the names of the topics, one a line; with --verbose, a table."""
    with connected() as cluster:
        found = describe_topics(cluster)
    rows = [summary_row(topic) for topic in found if not (exclude_internal and topic.internal)]
    if as_json:
        print_json(rows)
    elif verbose:
        print_table(_LIST_COLUMNS, rows)
    else:
        for row in rows:
            click.echo(printable(row["topic"]))


@command.command("create")
@click.argument("name", metavar="NAME")
@click.option(
    "--partitions",
    type=COUNT,
    metavar="N",
    help="Number of partitions.  [default: the broker's num.partitions]",
)
@click.option(
    "--replication-factor",
    type=WholeNumber(1, 32767),
    metavar="N",
    help="Replicas of each partition.  [default: the broker's default.replication.factor]",
)
@click.option(
    "--config",
    "configs",
    multiple=True,
    metavar="KEY=VALUE",
    help="Setting of the topic, such as retention.ms=60000; repeatable.",
)
@click.option("--if-not-exists", is_flag=True, help="Succeed if the topic exists already.")
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
        print_json(change_row(change, "created"))
    elif exists:
        click.echo(f"Topic '{printable(name)}' already exists.")
    elif not change.error:
        click.echo(f"Created topic '{printable(name)}'.")
    if change.error and not exists:
        refused = Refused(
            change.error,
            f"Topic '{printable(name)}' was not created",
            change.message,
            _REMEDIES.get(change.error, ""),
        )
        raise CommandFailed(refused.cause, refused.remedy)


@command.command("delete")
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=complete_topics)
@click.option("--if-exists", is_flag=True, help="Ignore topics that do not exist.")
@json_option
@broker_options
def delete(*, names: tuple[str, ...], if_exists: bool, as_json: bool) -> None:
    """Delete topics and all their records."""
    with connected() as cluster:
        changes = delete_topics(cluster, names)
    if as_json:
        print_json([change_row(change, "deleted") for change in changes])
    else:
        for change in changes:
            if not change.error:
                click.echo(f"Deleted topic '{printable(change.name)}'.")
    absent = [each.name for each in changes if each.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    refused = [each for each in changes if each.error and each.name not in absent]
    if refused:
        raise CommandFailed(
            "\n".join(
                Refused(
                    each.error, f"Topic '{printable(each.name)}' was not deleted", each.message
                ).cause
                for each in refused
            )
        )
    if absent and not if_exists:
        raise no_such_topics(absent)


@command.command("describe", short_help="Show partitions, replicas and settings of topics.")
@click.argument("names", metavar="[NAME...]", nargs=-1, shell_complete=complete_topics)
@json_option
@broker_options
def describe(*, names: tuple[str, ...], as_json: bool) -> None:
    """Show the partitions, replicas and settings of topics; without a NAME, of all topics."""
    with connected() as cluster:
        described = describe_topics(cluster, names or None)
        found = [topic for topic in described if not topic.error]
        configs = topic_configs(cluster, [topic.name for topic in found])
    if as_json:
        print_json([details_row(topic, configs.get(topic.name, {})) for topic in found])
    else:
        for topic in found:
            _print_topic(topic, configs.get(topic.name, {}))
    for topic in described:
        if topic.error not in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            refused = Refused(topic.error, f"Topic '{printable(topic.name)}'")
            raise CommandFailed(refused.cause, refused.remedy)
    absent = [topic.name for topic in described if topic.error]
    if absent:
        raise no_such_topics(absent)


command.add_command(assign_command)
command.add_command(produce_command)


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise click.UsageError(f"Invalid value for --config: {text!r} is not KEY=VALUE.")
    return key.strip(), value


def _print_topic(topic: Topic, configs: dict[str, str]) -> None:
    """Print a topic as kafka-topics does: one line, and an indented line for each partition.

    On a terminal the lines are shorter, and the partitions are a table.
    """
    if is_for_people():
        _print_topic_for_people(topic, configs)
        return
    settings = ",".join(f"{key}={value}" for key, value in configs.items())
    _print_pairs(
        "",
        {
            "Topic": topic.name,
            "TopicId": topic.topic_id,
            "PartitionCount": len(topic.partitions),
            "ReplicationFactor": topic.replication_factor,
            "Configs": settings,
        },
    )
    for partition in topic.partitions:
        pairs = {
            "Topic": topic.name,
            "Partition": partition.partition_index,
            "Leader": "none" if partition.leader is None else partition.leader,
            "Replicas": ",".join(map(str, partition.replicas)),
            "Isr": ",".join(map(str, partition.in_sync)),
        }
        degraded = partition.leader is None or len(partition.in_sync) < len(partition.replicas)
        _print_pairs("\t", pairs, "red" if degraded else "")


def _print_topic_for_people(topic: Topic, configs: dict[str, str]) -> None:
    count = counted(len(topic.partitions), "partition")
    words = f"{count}, replicas {topic.replication_factor}"
    print_folded([(printable(topic.name), "bold"), (f"  {words}, id {topic.topic_id}", "")], 2)
    for key, value in configs.items():
        print_folded([(printable(f"  {key} = {value}"), "")], 4)
    rows = [
        {
            "partition": partition.partition_index,
            "leader": "none" if partition.leader is None else partition.leader,
            "replicas": ",".join(map(str, partition.replicas)),
            "isr": ",".join(map(str, partition.in_sync)),
        }
        for partition in topic.partitions
    ]
    print_table(_PARTITION_COLUMNS, rows)


def _print_pairs(indent: str, pairs: dict[str, Any], style: str = "") -> None:
    parts: list[tuple[str, str]] = []
    for n, (key, value) in enumerate(pairs.items()):
        text = "" if value is None else printable(str(value))
        parts += [("\t" if n else indent, ""), (f"{key}: ", "dim"), (text, style)]
    print_line(parts)
