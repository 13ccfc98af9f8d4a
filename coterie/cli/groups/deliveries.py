"""`coterie groups deliveries`: what became of the deliveries of a share group."""

import click

from coterie.cli.broker import broker_options, connected
from coterie.cli.errors import no_such_groups
from coterie.cli.options import complete_groups, json_option
from coterie.cli.output import Column, Row, note, print_json, print_table, printable
from coterie.cli.values import NATURAL
from coterie.client.cluster import Cluster
from coterie.client.names import counted
from coterie.client.share_groups import describe_share_groups
from coterie.client.share_state import state_records
from coterie.client.times import time_text
from coterie.client.topics import describe_topics
from coterie.coordinator.share_partition.states import ARCHIVED
from coterie.pipeline.timeline.deliveries import Delivery, DeliveryReader
from coterie.protocol.fields import uuid_text

_COLUMNS = [
    Column("AT", "at", 30),
    Column("TOPIC", "topic"),
    Column("PARTITION", "partition", 10),
    Column("FIRST-OFFSET", "first_offset", 13),
    Column("LAST-OFFSET", "last_offset", 12),
    Column("BECAME", "became", 13),
    Column("DELIVERIES", "delivery_count", 10),
]


@click.command("deliveries")
@click.argument("group_id", metavar="GROUP", shell_complete=complete_groups)
@click.option("--archived", is_flag=True, help="Only records that the group has given up.")
@click.option("--limit", type=NATURAL, metavar="N", help="Show only the last N.")
@json_option
@broker_options
def command(*, group_id: str, archived: bool, limit: int | None, as_json: bool) -> None:
    """Show what became of the deliveries of a share group.

    A record is ACKNOWLEDGED; AVAILABLE again, because it was released or not acknowledged in time;
    or ARCHIVED, because it was rejected or delivered as often as the group allows. Who had it is
    not recorded.

    The source is the topic __share_group_state, which brokers prune every few minutes: of older
    deliveries only what is not done with is known.
    """
    with connected() as cluster:
        if group_id not in describe_share_groups(cluster, [group_id]):
            raise no_such_groups([group_id])
        rows = _rows(cluster, group_id, archived=archived)
    shown = rows if limit is None else rows[len(rows) - min(limit, len(rows)) :]
    if as_json:
        print_json(shown)
    elif shown:
        print_table(_COLUMNS, shown)
    else:
        what = "has archived nothing" if archived else "has ended no delivery"
        note(f"Group '{printable(group_id)}' {what} that is still recorded.")


def _rows(cluster: Cluster, group_id: str, *, archived: bool) -> list[Row]:
    reader = DeliveryReader()
    found: list[Delivery] = []
    for records in state_records(cluster, group_id).values():
        for record in records:
            found += reader.read(record.key, record.value, record.timestamp_ms)
    if reader.skipped:
        skipped = counted(reader.skipped, "record", "is", "are")
        note(f"{skipped} left out: of another version, or damaged.")
    names = {each.topic_id: each.name for each in describe_topics(cluster)}
    return [
        {
            "group": group_id,
            "at": time_text(each.at_ms),
            "topic": names.get(uuid_text(each.key.topic_id)),
            "partition": each.key.partition,
            "first_offset": each.first_offset,
            "last_offset": each.last_offset,
            "became": each.became,
            "delivery_count": each.delivery_count,
        }
        for each in sorted(found, key=lambda each: each.at_ms)
        if not archived or each.became == ARCHIVED.name
    ]
