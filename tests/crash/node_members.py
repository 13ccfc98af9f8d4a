"""Members of groups on a broker without sockets: turns in which their records are written.

What a member knows is read from the coordinator's memory: within a turn that is being written its
answer is not there yet.
"""

from coterie.coordinator.groups.classic.group import Group
from coterie.coordinator.groups.consumer.group import ConsumerGroup
from coterie.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    HeartbeatTopicPartitions,
)
from coterie.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    TopicPartition,
    encode_assignment,
)
from tests.crash.node import Node

_LEAVES = -1
_REBALANCE_MS = 60_000
_VERSION = 0
# Members reach their target in so many heartbeats each: one gives up, the others take.
_ROUNDS = 3


def consumer_group(node: Node, group_id: str) -> ConsumerGroup | None:
    """Return a consumer group; None if there is none, or a group of another type."""
    group = node.coordinator.group(group_id)
    return group if isinstance(group, ConsumerGroup) else None


def beat(node: Node, group_id: str, member_id: str, topic: str, epoch: int | None = None) -> None:
    """Send a heartbeat that says everything, and write its records.

    Args:
        node: the broker.
        group_id, member_id: the member, which joins if it is not there.
        topic: to which it subscribes.
        epoch: another one than its own, with which it leaves.
    """
    group = consumer_group(node, group_id)
    member = None if group is None else group.members.get(member_id)
    request = ConsumerGroupHeartbeatRequest(
        group_id=group_id,
        member_id=member_id,
        member_epoch=(0 if member is None else member.epoch) if epoch is None else epoch,
        rebalance_timeout_ms=_REBALANCE_MS,
        subscribed_topic_names=[topic],
        topic_partitions=[]
        if member is None
        else [
            HeartbeatTopicPartitions(topic_id=topic_id, partitions=sorted(indexes))
            for topic_id, indexes in member.assigned.items()
        ],
    )
    node.send(request, 1, f"{member_id} beats {node.done}")
    node.turn()


def reconcile(node: Node, group_id: str, topic: str) -> None:
    """Let all members of the consumer protocol send heartbeats."""
    for _ in range(_ROUNDS):
        group = consumer_group(node, group_id)
        assert group is not None, f"{group_id} is a consumer group"
        for member in list(group.members.values()):
            if member.classic is None:
                beat(node, group_id, member.member_id, topic)


def leave(node: Node, group_id: str, member_id: str, topic: str) -> None:
    """Let a member of the consumer protocol leave."""
    beat(node, group_id, member_id, topic, _LEAVES)


def commit(node: Node, group_id: str, member_id: str, topic: str, offset: int) -> None:
    """Commit an offset of a member, with its epoch."""
    group = consumer_group(node, group_id)
    assert group is not None, f"{group_id} is a consumer group"
    node.commit(
        f"{member_id} commits {offset} {node.done}",
        offset,
        topic=topic,
        group_id=group_id,
        member_id=member_id,
        generation_id=group.members[member_id].epoch,
    )
    node.turn()


def join_classic(node: Node, group_id: str, topic: str) -> str:
    """Let the only member of a classic group join, or join again; return its id."""
    group = node.coordinator.group(group_id)
    known = [] if group is None else [*getattr(group, "members", ())]
    name = f"classic of {group_id} {node.done}"
    node.join(name, known[0] if known else "", group_id=group_id)
    node.turn()
    node.wait(0)
    node.turn()
    after = node.coordinator.group(group_id)
    assert isinstance(after, Group), f"{after} is a classic group"
    (member_id,) = after.members
    assigned = [TopicPartition(topic=topic, partitions=[0])]
    given = encode_assignment(ConsumerProtocolAssignment(assigned_partitions=assigned), _VERSION)
    node.sync(
        f"{name} syncs", member_id, after.generation_id, {member_id: given}, group_id=group_id
    )
    node.turn()
    assert after.state_name == "Stable", f"{after} has an assignment"
    return member_id
