"""The conversion of a classic group: the consumer group of its members, made in steps.

The classic group goes on between two steps. A member that has changed since it was converted is
converted once more, and everything begins anew if members have come or gone, or if the generation
or a topic is another one. So what `finish` returns is what it would have returned without steps,
and takes little time if nothing has changed.

Invariant: the group is nobody else's until `finish` has returned it.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from coterie.coordinator.groups.classic.group import Group
from coterie.coordinator.groups.classic.member import Member
from coterie.coordinator.groups.consumer.group import ConsumerGroup
from coterie.coordinator.groups.consumer.group_state import Partitions
from coterie.coordinator.groups.consumer.records import current_value, target_value
from coterie.coordinator.groups.consumer.states import MemberState
from coterie.coordinator.groups.metadata_hash import metadata_hash
from coterie.coordinator.groups.refusal import Refusal
from coterie.coordinator.kernel.append import Pair, Record
from coterie.coordinator.topic_image import TopicsImage
from coterie.protocol.errors import ErrorCode, MalformedFrame
from coterie.protocol.messages.consumer_group_records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from coterie.protocol.messages.consumer_protocol import (
    TopicPartition,
    decode_assignment,
    decode_subscription,
)
from coterie.protocol.messages.log_records import encode_key, encode_value

# A record with its bytes.
_Logged = tuple[Record, Pair]


class _Source(NamedTuple):
    """What the records of a converted member are made from."""

    protocols: tuple[tuple[str, bytes], ...]
    assignment: bytes
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int


class _Converted(NamedTuple):
    """A converted member: what it was made from, its records, and how many partitions it has."""

    source: _Source
    subscription: _Logged
    target: _Logged
    current: _Logged
    partitions: int


class Conversion:
    """The consumer group of a classic group's members.

    Attributes:
        before: the classic group.
    """

    __slots__ = ("_begun_with", "_converted", "_group", "_topics", "before")

    def __init__(self, before: Group, topics: TopicsImage) -> None:
        """Begin without a converted member."""
        self.before = before
        self._topics = topics
        self._begun_with: tuple[int, str | None, int, list[str]] | None = None
        self._converted: dict[str, _Converted] = {}
        self._group = ConsumerGroup(before.group_id)

    def go_on(self, epoch: int) -> Iterator[int]:
        """Convert the members that are not converted, or have changed since.

        A step converts one of them.

        Args:
            epoch: of the group that comes into being.

        Raises:
            Refusal: a member cannot be converted.
        """
        self._begin(epoch)
        before, version, name = self.before, self._topics.version, self.before.protocol_name
        for member in list(before.members.values()):
            is_same = before.protocol_name == name and self._topics.version == version
            if not is_same or name is None or member.metadata_or_none(name) is None:
                return
            source = _source_of(member)
            converted = self._converted.get(member.member_id)
            if converted is None or converted.source != source:
                self._converted[member.member_id] = self._convert(member, source, epoch)
                yield 1

    def finish(self, epoch: int) -> tuple[ConsumerGroup, list[Record], list[Pair]]:
        """Convert what is left; return the group, and its records in Kafka's order.

        Raises:
            Refusal: a member cannot be converted, or two have one partition.
        """
        for _ in self.go_on(epoch):
            pass
        before, group, group_id = self.before, self._group, self.before.group_id
        assert group.members.keys() == before.members.keys(), (
            f"each member of {before} is converted"
        )
        converted = self._converted.values()
        if group.owned_count != sum(each.partitions for each in converted):
            # A Kafka could not load the group.
            raise refused(before, "a partition is assigned to two members.")
        topics_hash = metadata_hash(group.subscribed_topics(), self._topics)
        metadata = _logged(
            ConsumerGroupMetadataKey(group_id=group_id),
            ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=topics_hash),
        )
        target_metadata = _logged(
            ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id),
            ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch),
        )
        for (key, value), _ in (metadata, target_metadata):
            group.apply(key, value)
        assert group.epoch == group.target_epoch == epoch, f"{group} begins with its target"
        logged = [
            *(each.subscription for each in converted),
            metadata,
            *(each.target for each in converted),
            target_metadata,
            *(each.current for each in converted),
        ]
        return group, [record for record, _ in logged], [pair for _, pair in logged]

    def _begins_with(self, epoch: int) -> tuple[int, str | None, int, list[str]]:
        before = self.before
        return epoch, before.protocol_name, self._topics.version, list(before.members)

    def _begin(self, epoch: int) -> None:
        """Begin anew if the group is not the one with which the conversion has begun."""
        begins_with = self._begins_with(epoch)
        if self._begun_with != begins_with:
            self._begun_with = begins_with
            self._converted = {}
            self._group = ConsumerGroup(self.before.group_id)
            self._group.topics = self._topics

    def _convert(self, member: Member, source: _Source, epoch: int) -> _Converted:
        """Return a member of the classic protocol as one of a consumer group, and add it there.

        Raises:
            Refusal: its subscription or its assignment cannot be read or kept.
        """
        name = self.before.protocol_name
        assert name is not None, f"{self.before} has no generation"
        subscription, partitions = _read(self.before, member, name, self._topics)
        assigned = {
            topic_id: dict.fromkeys(indexes, epoch) for topic_id, indexes in partitions.items()
        }
        ids = {"group_id": self.before.group_id, "member_id": member.member_id}
        converted = _Converted(
            source,
            _logged(ConsumerGroupMemberMetadataKey(**ids), subscription),
            _logged(ConsumerGroupTargetAssignmentMemberKey(**ids), target_value(partitions)),
            _logged(
                ConsumerGroupCurrentMemberAssignmentKey(**ids),
                current_value(epoch, epoch, MemberState.STABLE, assigned, {}),
            ),
            sum(map(len, partitions.values())),
        )
        for (key, value), _ in (converted.subscription, converted.target, converted.current):
            self._group.apply(key, value)
        assert member.member_id in self._group.members, f"{member} is converted and not there"
        return converted


def _logged(key: Any, value: Any) -> _Logged:
    return (key, value), (encode_key(key), encode_value(value))


def _source_of(member: Member) -> _Source:
    return _Source(
        member.protocols,
        member.assignment,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        member.session_timeout_ms,
    )


def _read(
    group: Group, member: Member, protocol: str, topics: TopicsImage
) -> tuple[ConsumerGroupMemberMetadataValue, Partitions]:
    """Return the subscription of a classic member as it is logged, and its partitions.

    Raises:
        Refusal: they cannot be read, or have what a consumer group cannot keep.
    """
    try:
        subscription = decode_subscription(member.metadata(protocol))
        assignment = decode_assignment(member.assignment) if member.assignment else None
    except MalformedFrame as error:
        raise refused(group, "the embedded consumer protocol is malformed.") from error
    if assignment is not None and assignment.user_data:
        raise refused(
            group,
            "an unsupported custom assignor is in use. Please refer to the documentation or "
            "switch to a default assignor before re-attempting the upgrade.",
        )
    value = ConsumerGroupMemberMetadataValue(
        instance_id=member.group_instance_id,
        rack_id=subscription.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(set(subscription.topics)),
        subscribed_topic_regex="",
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=None,
        classic_member_metadata=ClassicMemberMetadata(
            session_timeout_ms=member.session_timeout_ms,
            supported_protocols=[
                ClassicProtocol(name=name, metadata=metadata) for name, metadata in member.protocols
            ],
        ),
    )
    if assignment is None:
        return value, {}
    return value, partitions_by_id(assignment.assigned_partitions, topics)


def partitions_by_id(named: list[TopicPartition], topics: TopicsImage) -> Partitions:
    """Return partitions by topic id; those of topics that do not exist are left out."""
    found: dict[bytes, set[int]] = {}
    for each in named:
        topic = topics.by_name.get(each.topic)
        if topic is not None:
            found.setdefault(topic.topic_id, set()).update(each.partitions)
    return {topic_id: tuple(sorted(indexes)) for topic_id, indexes in found.items()}


def refused(group: Group, why: str) -> Refusal:
    """Return the refusal to upgrade a group."""
    return Refusal(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Cannot upgrade classic group {group.group_id} to consumer group because {why}",
    )
