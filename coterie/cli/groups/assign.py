"""`coterie groups assign`: what an assignor would give to the members of a live group.

Nothing is changed. The members, their subscriptions and their current partitions come from the
group's coordinator, the partition counts from the cluster; options vary both. A cooperative
assignor needs two rebalances to hand a partition over; the result is that of the second one.
"""

from collections.abc import Iterable

import click

from coterie.assignors.by_name import ASSIGNORS
from coterie.assignors.model import Assignment, MemberSubscription, TopicPartition
from coterie.cli.assignment_preview import (
    COORDINATOR_ASSIGNORS,
    UNIFORM,
    assumed_counts,
    assumed_partitions_option,
    coordinator_assignment,
    final_assignment,
    partition_counts,
    ranges_text,
)
from coterie.cli.broker import broker_options, connected
from coterie.cli.errors import CommandFailed, no_such_groups, require_owners
from coterie.cli.options import complete_groups, json_option
from coterie.cli.output import (
    Column,
    Row,
    assignment_text,
    is_for_people,
    note,
    print_json,
    print_table,
    printable,
)
from coterie.cli.timeline import by_topic
from coterie.cli.values import WholeNumber
from coterie.client.consumer_groups import with_matched_topics
from coterie.client.group_description import CONSUMER_GROUP, GroupDescription
from coterie.client.groups import describe_groups
from coterie.client.names import counted, short_member

# The limit of --add: more members than any real group has, and few enough for a quick answer.
MAX_ADDED_MEMBERS = 1_000

_COLUMNS = [
    Column("CONSUMER-ID", "consumer_id"),
    Column("GROUP-INSTANCE-ID", "group_instance_id", 17),
    Column("NOW", "now", 20, assignment_text),
    Column("THEN", "then", 20, assignment_text),
    Column("GAINS", "gains", 5),
    Column("LOSES", "loses", 5),
]


# On a terminal [terminal/layout].
_FITTED_COLUMNS = [
    Column("MEMBER", "name"),
    Column("NOW", "now", text=ranges_text),
    Column("THEN", "then", text=ranges_text),
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
    type=WholeNumber(0, MAX_ADDED_MEMBERS),
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
@assumed_partitions_option
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
    In a consumer group (KIP-848) NOW has what a member has yet to give up, too, and the coordinator
    assigns, with uniform or range.
    """
    assumed = assumed_counts(counts)
    topics = [name for each in topic_lists for name in each.split(",") if name]
    if topics and not added:
        raise click.UsageError("--topics needs --add: it names the topics of new members.")
    with connected() as cluster:
        group = with_matched_topics(cluster, describe_groups(cluster, [group_id]))[group_id]
        if not group.exists:
            raise no_such_groups([group_id])
        require_owners([group])
        now = [] if topics and not group.members else _members(group)
        members = _varied(now, added, without, topics)
        partitions = {**partition_counts(cluster, members), **assumed}
        if group.type == CONSUMER_GROUP and assignor == UNIFORM:
            then = coordinator_assignment(cluster, partitions, _from_target(group, members))
        else:
            then = final_assignment(assignor, partitions, members)
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
    if group.type == CONSUMER_GROUP and assignor not in COORDINATOR_ASSIGNORS:
        usable = " or ".join(COORDINATOR_ASSIGNORS)
        note(
            f"The coordinator assigns in a consumer group, with {usable} (group.remote.assignor)."
            f" {assignor} is for classic groups."
        )
    total = counted(sum(map(len, then.values())), "partition")
    note(f"{_moved(now, then)} of {total} would change owner.")


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


def _from_target(
    group: GroupDescription, members: Iterable[MemberSubscription]
) -> list[MemberSubscription]:
    """Return members with their targets in place of what they have: a target follows from the last.

    Members that are assumed have none.
    """
    targets = {each.member_id: each.target_assignment or {} for each in group.members}
    return [
        member._replace(
            owned=tuple(
                TopicPartition(topic, index)
                for topic, indexes in targets.get(member.member_id, {}).items()
                for index in indexes
            )
        )
        for member in members
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


def _row(member: MemberSubscription, then: Assignment) -> Row:
    now, assigned = set(member.owned), set(then[member.member_id])
    return {
        "consumer_id": member.member_id,
        "group_instance_id": member.group_instance_id,
        "now": by_topic(sorted(now)),
        "then": by_topic(sorted(assigned)),
        "gains": len(assigned - now),
        "loses": len(now - assigned),
    }


def _moved(members: list[MemberSubscription], then: Assignment) -> int:
    """Return how many partitions go from one member to another."""
    owners = {partition: each.member_id for each in members for partition in each.owned}
    return sum(
        owners.get(partition, member_id) != member_id
        for member_id, assigned in then.items()
        for partition in assigned
    )
