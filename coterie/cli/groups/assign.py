"""`coterie groups assign`: what an assignor would give to the members of a live group.

Nothing is changed. The members, their subscriptions and their current partitions come from the
group's coordinator, the partition counts from the cluster; options vary both. A cooperative
assignor needs two rebalances to hand a partition over; the result is that of the second one.
"""

from collections.abc import Iterable, Mapping

import click

from coterie.assignors import (
    ASSIGNORS,
    Assignment,
    MemberSubscription,
    TopicPartition,
)
from coterie.cli.broker import broker_options, connected
from coterie.cli.errors import CommandFailed, no_such_groups, no_such_topics
from coterie.cli.options import complete_groups, json_option
from coterie.cli.output import (
    NOTHING,
    Column,
    Row,
    assignment_text,
    is_for_people,
    note,
    print_json,
    print_table,
    printable,
)
from coterie.cli.timeline import partition_ranges
from coterie.client.cluster import Cluster
from coterie.client.group_description import GroupDescription
from coterie.client.groups import describe_groups
from coterie.client.names import short_member
from coterie.client.topics import describe_topics

# The limit of --add: more members than any real group has, and few enough for a quick answer.
MAX_ADDED_MEMBERS = 1_000
_COOPERATIVE = "cooperative-sticky"

_COLUMNS = [
    Column("CONSUMER-ID", "consumer_id"),
    Column("GROUP-INSTANCE-ID", "group_instance_id", 17),
    Column("NOW", "now", 20, assignment_text),
    Column("THEN", "then", 20, assignment_text),
    Column("GAINS", "gains", 5),
    Column("LOSES", "loses", 5),
]


def _ranges_text(assignment: dict[str, list[int]]) -> str:
    pairs = [(topic, each) for topic, numbers in assignment.items() for each in numbers]
    return partition_ranges(pairs) if pairs else NOTHING


# On a terminal [terminal/layout].
_FITTED_COLUMNS = [
    Column("MEMBER", "name"),
    Column("NOW", "now", text=_ranges_text),
    Column("THEN", "then", text=_ranges_text),
    Column("GAINS", "gains", number=True),
    Column("LOSES", "loses", number=True),
]


@click.command("assign")
@click.argument("group_id", metavar="GROUP", shell_complete=complete_groups)
@click.option(
    "--assignor",
    required=True,
    type=click.Choice(sorted(ASSIGNORS)),
    help="Assignor to preview.",
)
@click.option(
    "--add",
    "added",
    type=click.IntRange(0, MAX_ADDED_MEMBERS),
    default=0,
    metavar="COUNT",
    help="Assume this many more members, subscribed to all topics of the group, or to --topics.",
)
@click.option(
    "--topics",
    "topic_lists",
    multiple=True,
    metavar="TOPIC[,TOPIC...]",
    help="The topics of the members of --add; a group without members needs it. Repeatable.",
)
@click.option(
    "--without",
    multiple=True,
    metavar="MEMBER",
    help="Assume that this member has left (member id or instance id); repeatable.",
)
@click.option(
    "--partitions",
    "counts",
    multiple=True,
    metavar="TOPIC=COUNT",
    help="Assume that the topic has this many partitions; repeatable.",
)
@json_option
@broker_options
def command(
    *,
    group_id: str,
    assignor: str,
    added: int,
    topic_lists: tuple[str, ...],
    without: tuple[str, ...],
    counts: tuple[str, ...],
    as_json: bool,
) -> None:
    """Show the partitions that each member of a group has now, and those that it would have.

    NOW is the current assignment, THEN the one that the assignor would make. Nothing is changed.
    """
    assumed_counts = _counts(counts)
    topics = [name for each in topic_lists for name in each.split(",") if name]
    if topics and not added:
        raise click.UsageError("--topics needs --add: it names the topics of new members.")
    with connected() as cluster:
        group = describe_groups(cluster, [group_id])[group_id]
        if not group.exists:
            raise no_such_groups([group_id])
        now = [] if topics and not group.members else _members(group)
        members = _varied(now, added, without, topics)
        partitions = {**_partition_counts(cluster, members), **assumed_counts}
    then = _assigned(assignor, partitions, members)
    rows = [_row(member, then) for member in members]
    if as_json:
        print_json(rows)
        return
    if is_for_people():
        names = {
            member.member_id: short_member(
                member.group_instance_id or member.member_id, member.member_id, member.client_id
            )
            for member in group.members
        }
        for row in rows:
            row["name"] = names.get(row["consumer_id"], row["consumer_id"])
        print_table(_FITTED_COLUMNS, rows)
    else:
        print_table(_COLUMNS, rows)
    note(f"{_moved(now, then)} of {sum(map(len, then.values()))} partitions would change owner.")


def _counts(texts: Iterable[str]) -> dict[str, int]:
    counts = {}
    for text in texts:
        topic, equals, number = text.rpartition("=")
        if not equals or not topic or not number.isdigit():
            raise click.UsageError(f"Invalid value for --partitions: {text!r} is not TOPIC=COUNT.")
        counts[topic] = int(number)
    return counts


def _members(group: GroupDescription) -> list[MemberSubscription]:
    """Return the members with their subscriptions and current partitions.

    Raises:
        CommandFailed: the group has no members, or the subscriptions are not known.
    """
    name = printable(group.group_id)
    if not group.members:
        raise CommandFailed(
            f"Group '{name}' has no members, so there is nothing to assign to.",
            "Assume members with --add COUNT --topics TOPIC[,TOPIC...], or start its consumers.",
        )
    if any(member.topics is None or member.assignment is None for member in group.members):
        raise CommandFailed(
            f"The subscriptions of group '{name}' are not known (state {group.state}).",
            "If the group is rebalancing, try again in a moment. Groups of other clients than"
            " consumers, such as Connect workers, have no subscriptions.",
        )
    return [
        MemberSubscription(
            member.member_id,
            tuple(member.topics or ()),
            tuple(
                TopicPartition(topic, partition)
                for topic, partitions in (member.assignment or {}).items()
                for partition in partitions
            ),
            # All current assignments are from the same generation.
            0,
            member.group_instance_id,
        )
        for member in group.members
    ]


def _varied(
    members: list[MemberSubscription],
    added: int,
    without: Iterable[str],
    topics: Iterable[str] = (),
) -> list[MemberSubscription]:
    """Return the members without some of them and with some more.

    Raises:
        CommandFailed: a member of `without` is not in the group.
    """
    left = set(without)
    known = {name for each in members for name in (each.member_id, each.group_instance_id)}
    if left - known:
        names = ", ".join(f"'{printable(name)}'" for name in sorted(left - known))
        raise CommandFailed(
            f"The group has no member {names}.",
            "`coterie groups describe --members` lists its members.",
        )
    remaining = [
        each
        for each in members
        if each.member_id not in left and each.group_instance_id not in left
    ]
    own = (topic for each in members for topic in each.topics)
    subscribed = tuple(dict.fromkeys(topics or own))
    return remaining + [MemberSubscription(f"(new {n + 1})", subscribed) for n in range(added)]


def _partition_counts(cluster: Cluster, members: list[MemberSubscription]) -> dict[str, int]:
    names = {topic for member in members for topic in member.topics}
    topics = describe_topics(cluster, sorted(names)) if names else []
    missing = [topic.name for topic in topics if topic.error]
    if missing and len(missing) == len(topics):
        raise no_such_topics(missing)
    return {topic.name: len(topic.partitions) for topic in topics if not topic.error}


def _assigned(
    assignor: str, counts: Mapping[str, int], members: list[MemberSubscription]
) -> Assignment:
    """Return the final assignment, which is the second one of a cooperative assignor."""
    assignment = ASSIGNORS[assignor](counts, members)
    if assignor == _COOPERATIVE:
        rejoined = [
            member._replace(owned=tuple(assignment[member.member_id]), generation_id=1)
            for member in members
        ]
        assignment = ASSIGNORS[assignor](counts, rejoined)
    return assignment


def _row(member: MemberSubscription, then: Assignment) -> Row:
    now, assigned = set(member.owned), set(then[member.member_id])
    return {
        "consumer_id": member.member_id,
        "group_instance_id": member.group_instance_id,
        "now": _by_topic(now),
        "then": _by_topic(assigned),
        "gains": len(assigned - now),
        "loses": len(now - assigned),
    }


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        by_topic.setdefault(topic, []).append(partition)
    return by_topic


def _moved(members: list[MemberSubscription], then: Assignment) -> int:
    """Return how many partitions go from one member to another."""
    owners = {partition: each.member_id for each in members for partition in each.owned}
    return sum(
        owners.get(partition, member_id) != member_id
        for member_id, assigned in then.items()
        for partition in assigned
    )
