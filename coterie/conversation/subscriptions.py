"""Subscriptions and assignments of consumers as bytes, from and to the types of the assignors."""

from collections.abc import Iterable
from typing import Any

from coterie.assignors.model import MemberSubscription, TopicPartition
from coterie.protocol.errors import MalformedFrame
from coterie.protocol.messages import consumer_protocol as consumer


def encoded_subscription(
    topics: Iterable[str],
    owned: Iterable[TopicPartition],
    generation_id: int,
    *,
    version: int = consumer.LATEST_VERSION,
    user_data: bytes | None = None,
) -> bytes:
    """Return the subscription of a member that has joined `generation_id`, or -1."""
    subscription = consumer.ConsumerProtocolSubscription(
        topics=list(topics),
        user_data=user_data,
        owned_partitions=by_topic(owned),
        generation_id=generation_id,
    )
    return consumer.encode_subscription(subscription, version)


def subscription_of(member: Any) -> MemberSubscription:
    """Return the subscription of a member in the response to a leader's JoinGroup."""
    decoded = consumer.decode_subscription(member.metadata)
    return MemberSubscription(
        member.member_id,
        tuple(decoded.topics),
        flat(decoded.owned_partitions),
        decoded.generation_id if decoded.generation_id >= 0 else None,
        member.group_instance_id,
    )


def encoded_assignment(
    partitions: Iterable[TopicPartition], version: int = consumer.LATEST_VERSION
) -> bytes:
    """Return an assignment as bytes."""
    message = consumer.ConsumerProtocolAssignment(assigned_partitions=by_topic(partitions))
    return consumer.encode_assignment(message, version)


def decoded_assignment(data: bytes) -> tuple[TopicPartition, ...]:
    """Return the partitions of an assignment; none if the bytes are empty or no assignment."""
    try:
        decoded = consumer.decode_assignment(data) if data else None
    except MalformedFrame:
        return ()
    return () if decoded is None else flat(decoded.assigned_partitions)


def by_topic(partitions: Iterable[TopicPartition]) -> list[consumer.TopicPartition]:
    """Return partitions by topic, in the order of their first mention."""
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return [consumer.TopicPartition(topic=name, partitions=own) for name, own in topics.items()]


def flat(topics: Iterable[Any]) -> tuple[TopicPartition, ...]:
    """Return the partitions of topics."""
    return tuple(TopicPartition(each.topic, index) for each in topics for index in each.partitions)
