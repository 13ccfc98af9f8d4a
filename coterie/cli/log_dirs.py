"""`coterie log-dirs`: the log directories of any Kafka, and the sizes of topics and partitions.

The keys of `--json` are listed in documentation/reference/json_keys.tsv.
"""

from collections.abc import Sequence

import click

from coterie.cli.broker import broker_options, connected
from coterie.cli.errors import CommandFailed, no_such_topics
from coterie.cli.options import complete_topics, json_option
from coterie.cli.output import (
    Column,
    Row,
    bytes_text,
    print_folded,
    print_json,
    print_table,
    printable,
)
from coterie.cli.values import NATURAL
from coterie.client.log_dirs import UNKNOWN, LogDir, describe_log_dirs
from coterie.client.names import counted

_TOPIC_COLUMNS = [
    Column("TOPIC", "topic", 25),
    Column("PARTITIONS", "partitions", 10, number=True),
    Column("SIZE", "size_bytes", 12, bytes_text, number=True),
]
_PARTITION_COLUMNS = [
    Column("TOPIC", "topic", 25),
    Column("PARTITION", "partition", 9, number=True),
    Column("SIZE", "size_bytes", 12, bytes_text, number=True),
    Column("OFFSET-LAG", "offset_lag", 10, number=True),
    Column("FUTURE", "is_future", 6),
]


@click.command("log-dirs")
@click.argument("topics", metavar="[TOPIC...]", nargs=-1, shell_complete=complete_topics)
@click.option(
    "--broker", "brokers", type=NATURAL, multiple=True, metavar="ID", help="Only this broker."
)
@click.option("--partitions", is_flag=True, help="Show each partition instead of each topic.")
@json_option
@broker_options
def command(
    *, topics: tuple[str, ...], brokers: tuple[int, ...], partitions: bool, as_json: bool
) -> None:
    """Show the log directories of brokers, and how large the logs in them are."""
    with connected() as cluster:
        found = describe_log_dirs(cluster, topics, brokers)
        known = {node.node_id for node in cluster.brokers()}
    absent = sorted(set(brokers) - known)
    if absent:
        ids = ", ".join(str(each) for each in sorted(known))
        raise CommandFailed(f"Broker {absent[0]} does not exist.", f"The brokers are {ids}.")
    missing = set(topics) - {each.topic for one in found for each in one.partitions}
    if missing:
        failed = no_such_topics(sorted(missing))
        raise failed
    if as_json:
        print_json([_json(each) for each in found])
        return
    for number, each in enumerate(found):
        if number:
            click.echo()
        _print(each, by_partition=partitions)


def _json(found: LogDir) -> Row:
    return {
        "broker": found.broker,
        "path": found.path,
        "error": found.error,
        "total_bytes": None if found.total_bytes == UNKNOWN else found.total_bytes,
        "usable_bytes": None if found.usable_bytes == UNKNOWN else found.usable_bytes,
        "size_bytes": sum(each.size_bytes for each in found.partitions),
        "topics": _topics(found),
        "partitions": [each._asdict() for each in found.partitions],
    }


def _topics(found: LogDir) -> list[Row]:
    names = dict.fromkeys(each.topic for each in found.partitions)
    sizes = {
        name: [each.size_bytes for each in found.partitions if each.topic == name] for name in names
    }
    return [
        {"topic": name, "partitions": len(each), "size_bytes": sum(each)}
        for name, each in sizes.items()
    ]


def _print(found: LogDir, *, by_partition: bool) -> None:
    head = f"Broker {found.broker}, {printable(found.path)}: {_summary(found)}"
    print_folded([(head, "")], 2)
    rows: Sequence[Row] = (
        [each._asdict() for each in found.partitions] if by_partition else _topics(found)
    )
    if rows:
        print_table(_PARTITION_COLUMNS if by_partition else _TOPIC_COLUMNS, rows)


def _summary(found: LogDir) -> str:
    if found.error is not None:
        return found.error
    total = sum(each.size_bytes for each in found.partitions)
    text = f"{counted(len(found.partitions), 'partition')}, {bytes_text(total)}"
    if found.usable_bytes != UNKNOWN:
        text += f"; {bytes_text(found.usable_bytes)} of {bytes_text(found.total_bytes)} free"
    return text
