"""RocketMQ's assignors that need further input: `by-config`, `by-machine-room` and `nearby`.

Kafka has no machine rooms, so the caller passes the rooms of partitions and members as mappings.
Racks can serve as machine rooms.
"""

from collections.abc import Iterable, Mapping, Sequence

from coterie.assignors.averagely import share_averagely, subscribers_of
from coterie.assignors.model import (
    Assignment,
    MemberSubscription,
    PartitionCounts,
    TopicPartition,
    partitions_of,
    subscribed_topics,
)


def assign_by_config(
    members: Sequence[MemberSubscription], configured: Mapping[str, Iterable[TopicPartition]]
) -> Assignment:
    """Assign as AllocateMessageQueueByConfig does [assignors/rocketmq-model]."""
    return {member.member_id: list(configured.get(member.member_id, ())) for member in members}


def assign_by_machine_room(
    counts: PartitionCounts,
    members: Sequence[MemberSubscription],
    *,
    rooms: Mapping[TopicPartition, str],
    consumer_rooms: Iterable[str],
) -> Assignment:
    """Assign as AllocateMessageQueueByMachineRoom does [assignors/rocketmq-model].

    Args:
        counts: the partitions of each topic.
        members: the clients.
        rooms: the room of each partition's broker; a partition without a room is not assigned.
        consumer_rooms: the rooms that this group reads from.
    """
    assignment: Assignment = {member.member_id: [] for member in members}
    allowed_rooms = set(consumer_rooms)
    for topic in subscribed_topics(counts, members):
        clients = subscribers_of(topic, members)
        partitions = [
            each for each in partitions_of(topic, counts) if rooms.get(each) in allowed_rooms
        ]
        each, extra = divmod(len(partitions), len(clients))
        for index, client in enumerate(clients):
            assignment[client] += partitions[index * each : (index + 1) * each]
            if index < extra:
                assignment[client].append(partitions[len(clients) * each + index])
    return assignment


def assign_nearby(
    counts: PartitionCounts,
    members: Sequence[MemberSubscription],
    *,
    rooms: Mapping[TopicPartition, str],
    member_rooms: Mapping[str, str],
) -> Assignment:
    """Assign as AllocateMachineRoomNearby does [assignors/rocketmq-model].

    Args:
        counts: the partitions of each topic.
        members: the clients.
        rooms: the room of each partition's broker.
        member_rooms: the room of each member.

    Raises:
        ValueError: a partition or a member has no room.
    """
    assignment: Assignment = {member.member_id: [] for member in members}
    for topic in subscribed_topics(counts, members):
        clients = subscribers_of(topic, members)
        in_room: dict[str, list[str]] = {}
        for client in clients:
            in_room.setdefault(_room(member_rooms.get(client), client), []).append(client)
        by_room: dict[str, list[TopicPartition]] = {}
        for partition in partitions_of(topic, counts):
            room = _room(rooms.get(partition), str(partition))
            by_room.setdefault(room, []).append(partition)
        # Partitions of the client's room come first: the order in which a client lists its queues.
        for near in (True, False):
            for room in sorted(by_room):
                if (room in in_room) is near:
                    for client, given in share_averagely(
                        by_room[room], in_room.get(room, clients)
                    ).items():
                        assignment[client] += given
    return assignment


def _room(room: str | None, of: str) -> str:
    if not room:
        raise ValueError(f"the machine room of {of} is not known")
    return room
