"""`coterie groups assign`: what an assignor would give to the members of a live group.

Nothing is changed. The members, what they subscribe to and what they have now come from the group's
coordinator; the partition counts from the cluster; both can be varied. With a cooperative assignor
the answer is the one after the second rebalance, in which given-up partitions find their new owner.
"""

from collections.abc import Iterable, Mapping

import click

from coterie.assignors import (
    ASSIGNORS,
    Assignment,
    MemberSubscription,
    TopicPartition,
)
from coterie.cli.broker import CommandFailed, broker_options, connected
from coterie.cli.names import complete_groups
from coterie.cli.output import (
    Column,
    Row,
    assignment_text,
    json_option,
    note,
    print_json,
    print_table,
    printable,
)
from coterie.cli.refusals import no_such_groups, no_such_topics
from coterie.client.cluster import Cluster
from coterie.client.described import GroupDescription
from coterie.client.groups import describe_groups
from coterie.client.topics import describe_topics

# Members that --add may invent: more than any group has, and still answered at once.
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


@click.command("assign", short_help="Preview what an assignor would give to a group's members.")
@click.argument("group_id", metavar="GROUP", shell_complete=complete_groups)
@click.option(
    "--assignor", required=True, type=click.Choice(sorted(ASSIGNORS)), help="Who would assign."
)
@click.option(
    "--add",
    "added",
    type=click.IntRange(0, MAX_ADDED_MEMBERS),
    default=0,
    metavar="COUNT",
    help="As if so many more members subscribed to the group's topics.",
)
@click.option(
    "--without",
    multiple=True,
    metavar="MEMBER",
    help="As if this member (by member or instance id) had left; repeatable.",
)
@click.option(
    "--partitions",
    "counts",
    multiple=True,
    metavar="TOPIC=COUNT",
    help="As if the topic had so many partitions; repeatable.",
)
@json_option
@broker_options
def assign(
    *,
    group_id: str,
    assignor: str,
    added: int,
    without: tuple[str, ...],
    counts: tuple[str, ...],
    as_json: bool,
) -> None:
    """Show what each member of a group has, and what it would have under an assignor."""
    varied = _counts(counts)
    with connected() as cluster:
        group = describe_groups(cluster, [group_id])[group_id]
        if not group.exists:
            raise no_such_groups([group_id])
        before = _members(group)
        members = _varied(before, added, without)
        partitions = {**_partition_counts(cluster, members), **varied}
    then = _assigned(assignor, partitions, members)
    rows = [_row(member, then) for member in members]
    if as_json:
        print_json(rows)
        return
    print_table(_COLUMNS, rows)
    note(f"{_moved(before, then)} of {sum(map(len, then.values()))} partitions would change owner.")


def _counts(texts: Iterable[str]) -> dict[str, int]:
    found = {}
    for text in texts:
        topic, equals, number = text.rpartition("=")
        if not equals or not topic or not number.isdigit():
            raise click.UsageError(f"Invalid value for --partitions: {text!r} is not TOPIC=COUNT.")
        found[topic] = int(number)
    return found


def _members(group: GroupDescription) -> list[MemberSubscription]:
    """The members with what they subscribe to and have.

    Raises:
        CommandFailed: the group has none, or does not tell what they subscribe to.
    """
    name = printable(group.group_id)
    if not group.members:
        raise CommandFailed(
            f"Group '{name}' has no members.", "There is nobody to assign anything to; use --add."
        )
    if any(member.topics is None or member.assignment is None for member in group.members):
        raise CommandFailed(
            f"Group '{name}' does not tell what its members subscribe to ({group.state}).",
            "A rebalance hides it for a moment: try again. Only groups of consumers have it.",
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
            # All were assigned in the one generation that the group is in.
            0,
            member.group_instance_id,
        )
        for member in group.members
    ]


def _varied(
    members: list[MemberSubscription], added: int, without: Iterable[str]
) -> list[MemberSubscription]:
    gone = set(without)
    known = {name for each in members for name in (each.member_id, each.group_instance_id)}
    if gone - known:
        names = ", ".join(f"'{printable(name)}'" for name in sorted(gone - known))
        raise CommandFailed(
            f"The group has no member {names}.", "`coterie groups describe --members` names them."
        )
    left = [
        each
        for each in members
        if each.member_id not in gone and each.group_instance_id not in gone
    ]
    topics = tuple(dict.fromkeys(topic for each in members for topic in each.topics))
    return left + [MemberSubscription(f"(new {n + 1})", topics) for n in range(added)]


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
    given = ASSIGNORS[assignor](counts, members)
    if assignor == _COOPERATIVE:
        rejoined = [
            member._replace(owned=tuple(given[member.member_id]), generation_id=1)
            for member in members
        ]
        given = ASSIGNORS[assignor](counts, rejoined)
    return given


def _row(member: MemberSubscription, then: Assignment) -> Row:
    owned, given = set(member.owned), set(then[member.member_id])
    return {
        "consumer_id": member.member_id,
        "group_instance_id": member.group_instance_id,
        "now": _by_topic(owned),
        "then": _by_topic(given),
        "gains": len(given - owned),
        "loses": len(owned - given),
    }


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        found.setdefault(topic, []).append(partition)
    return found


def _moved(before: list[MemberSubscription], then: Assignment) -> int:
    """How many partitions go from one member to another."""
    owners = {partition: each.member_id for each in before for partition in each.owned}
    return sum(
        owners.get(partition, member_id) != member_id
        for member_id, given in then.items()
        for partition in given
    )
