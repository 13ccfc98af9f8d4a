"""Members as people see them, of groups whose coordinator assigns."""

from collections.abc import Collection, Iterable, Mapping

from coterie.coordinator.groups.group_like import SeenMember
from coterie.coordinator.groups.member_facts import JoinedMember
from coterie.coordinator.topic_image import TopicsImage
from coterie.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    encode_assignment,
    encode_subscription,
)


def seen_member(
    member: JoinedMember,
    subscribed: Iterable[str],
    assigned: Mapping[bytes, Collection[int]],
    topics: TopicsImage,
) -> SeenMember:
    """Return a member, with subscription and assignment in the format of classic consumers.

    Args:
        member: the member.
        subscribed: the names of the topics that it subscribes to.
        assigned: its partitions, by topic id.
        topics: the topics of the cluster; one that was deleted is named by its id as a number.
    """
    parts = []
    for topic_id, partitions in assigned.items():
        topic = topics.by_id.get(topic_id)
        name = topic_id.hex() if topic is None else topic.name
        parts.append(TopicPartition(topic=name, partitions=sorted(partitions)))
    return SeenMember(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        encode_subscription(ConsumerProtocolSubscription(topics=sorted(subscribed))),
        encode_assignment(ConsumerProtocolAssignment(assigned_partitions=parts)),
        None,
        member.last_heard_ms(),
        member.session_ms,
    )
