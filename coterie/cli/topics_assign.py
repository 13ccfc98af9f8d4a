"""`coterie topics assign`: what an assignor would give to members that need not exist.

The names of the members are given, so no group is needed; with assumed partition counts no broker
either. The assignors of RocketMQ that keep partitions near their readers need the rooms of members
and brokers; a broker's rack is its room unless another one is given [assignors/rocketmq-model].
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import click

from coterie.assignors.by_name import ASSIGNORS
from coterie.assignors.machine_room import assign_by_machine_room, assign_nearby
from coterie.assignors.model import Assignment, MemberSubscription, TopicPartition
from coterie.cli.assignment_preview import (
    assumed_counts,
    assumed_partitions_option,
    final_assignment,
    ranges_text,
)
from coterie.cli.broker import broker_options, connected
from coterie.cli.errors import CommandFailed, no_such_topics
from coterie.cli.options import complete_topics, json_option
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
from coterie.client.cluster import Cluster
from coterie.client.topics import broker_racks, describe_topics

BY_MACHINE_ROOM, NEARBY = "by-machine-room", "nearby"
_WITH_ROOMS = (BY_MACHINE_ROOM, NEARBY)

_COLUMNS = [
    Column("MEMBER", "member"),
    Column("ROOM", "room"),
    Column("#PARTITIONS", "partition_count"),
    Column("ASSIGNMENT", "assignment", 20, assignment_text),
]
# On a terminal [terminal/layout].
_FITTED_COLUMNS = [
    Column("MEMBER", "member"),
    Column("ROOM", "room"),
    Column("PARTITIONS", "partition_count", number=True),
    Column("ASSIGNMENT", "assignment", text=ranges_text),
]


class _Partitions(NamedTuple):
    """The partitions to assign.

    Attributes:
        counts: the number of partitions by topic.
        rooms: the room of each partition, if it is known.
    """

    counts: dict[str, int]
    rooms: dict[TopicPartition, str]


@click.command("assign")
@click.argument(
    "names", metavar="TOPIC...", nargs=-1, required=True, shell_complete=complete_topics
)
@click.option(
    "--members",
    "member_list",
    required=True,
    metavar="NAME[,NAME...]",
    help="The members, all subscribed to the topics. Their names decide the order.",
)
@click.option(
    "--assignor",
    required=True,
    type=click.Choice(sorted([*ASSIGNORS, *_WITH_ROOMS])),
    help="Assignor to preview.",
)
@click.option(
    "--rooms",
    "room_list",
    metavar="MEMBER=ROOM[,...]",
    help="The room of each member, for by-machine-room and nearby.",
)
@click.option(
    "--broker-rooms",
    "broker_room_list",
    metavar="BROKER=ROOM[,...]",
    help="The room of brokers by their ids.  [default: their racks]",
)
@assumed_partitions_option
@json_option
@broker_options
def command(
    *,
    names: tuple[str, ...],
    member_list: str,
    assignor: str,
    room_list: str | None,
    broker_room_list: str | None,
    counts: tuple[str, ...],
    as_json: bool,
) -> None:
    """Show the partitions that an assignor would give to members, without a group.

    Nothing is changed, and no group needs to exist. Topics of --partitions need not exist either.
    """
    members = _members(member_list, names)
    rooms = _pairs("--rooms", room_list)
    broker_rooms = _pairs("--broker-rooms", broker_room_list)
    _check_rooms(assignor, members, rooms, with_brokers=bool(broker_rooms))
    assumed = assumed_counts(counts)
    if assumed.keys() - set(names):
        raise click.UsageError("--partitions names a topic that is not assigned.")
    if set(names) <= assumed.keys() and assignor not in _WITH_ROOMS:
        partitions = _Partitions(assumed, {})
    else:
        with connected() as cluster:
            partitions = _partitions(cluster, names, assumed, broker_rooms)
    assignment = _assigned(assignor, partitions, members, rooms)
    rows = [_row(each.member_id, rooms, assignment) for each in members]
    if as_json:
        print_json(rows)
        return
    columns = _FITTED_COLUMNS if is_for_people() else _COLUMNS
    print_table([each for each in columns if rooms or each.key != "room"], rows)
    _note_balance([row["partition_count"] for row in rows], sum(partitions.counts.values()))


def _members(text: str, topics: tuple[str, ...]) -> list[MemberSubscription]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise click.UsageError("Invalid value for --members: there is no name.")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise click.UsageError(f"Invalid value for --members: '{twice[0]}' is there twice.")
    return [MemberSubscription(name, tuple(dict.fromkeys(topics))) for name in names]


def _pairs(option: str, text: str | None) -> dict[str, str]:
    """Return NAME=ROOM,... as a dictionary."""
    pairs: dict[str, str] = {}
    for part in (text or "").split(","):
        name, equals, room = (each.strip() for each in part.rpartition("="))
        if not part.strip():
            continue
        if not (name and equals and room):
            raise click.UsageError(f"Invalid value for {option}: {part!r} is not NAME=ROOM.")
        pairs[name] = room
    return pairs


def _check_rooms(
    assignor: str,
    members: Iterable[MemberSubscription],
    rooms: Mapping[str, str],
    *,
    with_brokers: bool,
) -> None:
    """Refuse rooms that are missing or not used.

    Raises:
        click.UsageError: the options contradict each other.
    """
    names = [each.member_id for each in members]
    if assignor not in _WITH_ROOMS:
        if rooms or with_brokers:
            raise click.UsageError(
                f"{assignor} does not use rooms; {' and '.join(_WITH_ROOMS)} do."
            )
        return
    for name in names:
        if name not in rooms:
            raise click.UsageError(f"{assignor} needs the room of '{name}': --rooms {name}=ROOM.")
    for name in rooms:
        if name not in names:
            raise click.UsageError(f"Invalid value for --rooms: '{name}' is not a member.")


def _partitions(
    cluster: Cluster,
    names: tuple[str, ...],
    assumed: Mapping[str, int],
    broker_rooms: Mapping[str, str],
) -> _Partitions:
    """Return the partitions of the topics, with the rooms of their leaders.

    Raises:
        CommandFailed: a topic does not exist and is not assumed either.
    """
    topics = describe_topics(cluster, names)
    missing = [topic.name for topic in topics if topic.error and topic.name not in assumed]
    if missing:
        raise no_such_topics(missing)
    racks = broker_racks(cluster)
    rooms: dict[TopicPartition, str] = {}
    for topic in topics:
        for part in topic.partitions:
            room = broker_rooms.get(str(part.leader)) or racks.get(part.leader)
            if room:
                rooms[TopicPartition(topic.name, part.partition_index)] = room
    counts = {topic.name: len(topic.partitions) for topic in topics if not topic.error}
    return _Partitions({**counts, **assumed}, rooms)


def _assigned(
    assignor: str,
    partitions: _Partitions,
    members: list[MemberSubscription],
    member_rooms: Mapping[str, str],
) -> Assignment:
    """Return the assignment.

    Raises:
        CommandFailed: the room of a partition is not known.
    """
    if assignor not in _WITH_ROOMS:
        return final_assignment(assignor, partitions.counts, members)
    for topic, count in sorted(partitions.counts.items()):
        for index in range(count):
            if TopicPartition(topic, index) not in partitions.rooms:
                raise CommandFailed(
                    f"The room of partition {printable(topic)}-{index} is not known: its leader"
                    " has no rack, or there is no leader.",
                    "Give the rooms of the brokers with --broker-rooms BROKER=ROOM,...",
                )
    if assignor == NEARBY:
        return assign_nearby(
            partitions.counts, members, rooms=partitions.rooms, member_rooms=member_rooms
        )
    return assign_by_machine_room(
        partitions.counts,
        members,
        rooms=partitions.rooms,
        consumer_rooms=set(member_rooms.values()),
    )


def _row(name: str, rooms: Mapping[str, str], assignment: Assignment) -> Row:
    return {
        "member": name,
        "room": rooms.get(name),
        "partition_count": len(assignment[name]),
        "assignment": by_topic(sorted(assignment[name])),
    }


def _note_balance(counts: list[int], total: int) -> None:
    """Say how even the assignment is, and what it leaves out."""
    least, most = min(counts), max(counts)
    share = f"{most}" if least == most else f"{least} to {most}"
    text = f"Each of {len(counts)} members would have {share} of {total} partitions."
    idle = counts.count(0)
    if idle:
        text += f" {idle} would have none."
    left = total - sum(counts)
    if left:
        text += f" {left} partitions would have no owner."
    note(text)
