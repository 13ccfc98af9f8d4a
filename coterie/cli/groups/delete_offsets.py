"""`coterie groups delete-offsets`: delete the offsets of topics that a group no longer reads."""

from contextlib import suppress

import click

from coterie.cli.broker import broker_options, connected
from coterie.cli.errors import CommandFailed, live_members_text, no_such_groups
from coterie.cli.options import group_option, json_option, topic_option
from coterie.cli.output import Column, print_json, print_table, printable
from coterie.client.cluster import Cluster, TopicPartition
from coterie.client.errors import VersionUnsupported, error_name
from coterie.client.group_description import GroupDescription
from coterie.client.offsets import delete_offsets
from coterie.client.resetting import resolve_partitions
from coterie.client.share_groups import delete_start_offsets, describe_share_groups
from coterie.protocol.errors import ErrorCode

_COLUMNS = [
    Column("TOPIC", "topic"),
    Column("PARTITION", "partition", 10),
    Column("STATUS", "status"),
]


@click.command("delete-offsets")
@group_option
@topic_option(
    required=True, description="Topic that the group no longer reads, or partitions of it."
)
@json_option
@broker_options
def command(*, group_id: str, scopes: tuple[str, ...], as_json: bool) -> None:
    """Delete the offsets that a group has committed for topics.

    The group must not be subscribed to these topics any more. A share group must have no members,
    and its offsets are deleted of whole topics. The exit code is 1 if an offset was not deleted.
    """
    with connected() as cluster:
        partitions = resolve_partitions(cluster, scopes)
        group_error, errors = delete_offsets(cluster, group_id, partitions)
        # A partition that the response leaves out counts as failed.
        missing = int(ErrorCode.UNKNOWN_SERVER_ERROR)
        outcome = {part: group_error or errors.get(part, missing) for part in partitions}
        if ErrorCode.GROUP_ID_NOT_FOUND in outcome.values():
            shared = _share_group(cluster, group_id)
            if shared is not None:
                outcome = _of_share_group(cluster, shared, partitions, scopes)
    rows = [
        {
            "group": group_id,
            "topic": topic,
            "partition": index,
            "deleted": not error,
            "error": error_name(error) if error else None,
        }
        for (topic, index), error in outcome.items()
    ]
    if as_json:
        print_json(rows)
    else:
        print_table(_COLUMNS, [{**row, "status": row["error"] or "Successful"} for row in rows])
    if any(outcome.values()):
        raise _failure(group_id, set(outcome.values()))


def _share_group(cluster: Cluster, group_id: str) -> GroupDescription | None:
    """Return a group that other requests do not find, if it is a share group."""
    with suppress(VersionUnsupported):
        return describe_share_groups(cluster, [group_id]).get(group_id)
    return None


def _of_share_group(
    cluster: Cluster,
    group: GroupDescription,
    partitions: list[TopicPartition],
    scopes: tuple[str, ...],
) -> dict[TopicPartition, int]:
    """Delete the start offsets of topics; return the error of each partition.

    Raises:
        CommandFailed: the scopes name single partitions, or the group has members.
    """
    name = printable(group.group_id)
    if any(":" in scope for scope in scopes):
        raise CommandFailed(
            f"Group '{name}' is a share group, whose offsets are deleted of whole topics.",
            "Name the topics without partitions.",
        )
    if group.members:
        raise CommandFailed(
            f"Group '{name}' is not empty: {live_members_text(group)}.", "Stop its members first."
        )
    topics = delete_start_offsets(cluster, group.group_id, dict.fromkeys(t for t, _ in partitions))
    return {(topic, index): topics[topic][0] for topic, index in partitions}


def _failure(group_id: str, errors: set[int]) -> CommandFailed:
    name = printable(group_id)
    if ErrorCode.GROUP_ID_NOT_FOUND in errors:
        return no_such_groups([group_id])
    if ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC in errors:
        return CommandFailed(
            f"Group '{name}' is still subscribed to some of these topics.",
            "Stop the members that read them; `coterie groups describe --members` lists them.",
        )
    if ErrorCode.UNKNOWN_TOPIC_OR_PARTITION in errors:
        return CommandFailed(
            f"Group '{name}' has no offsets of some of these topics.",
            f"`coterie groups describe {name}` shows those that it has.",
        )
    names = ", ".join(error_name(error) for error in sorted(errors) if error)
    return CommandFailed(f"Not all of these offsets of group '{name}' were deleted: {names}.")
