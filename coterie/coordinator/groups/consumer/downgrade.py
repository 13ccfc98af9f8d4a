"""The downgrade to a classic group: the last members of the consumer protocol are gone.

[consumer-groups/downgrade]

A large group stays a consumer group until its members are converted in parts, each of which a timer
starts that is due at once [consumer-groups/large-downgrade].
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from coterie.coordinator.groups.classic.group import CONSUMER_PROTOCOL_TYPE, Group
from coterie.coordinator.groups.classic.group_record import group_record
from coterie.coordinator.groups.classic.member import Member
from coterie.coordinator.groups.classic.members import start_session
from coterie.coordinator.groups.classic.rebalance import Cause, prepare_rebalance
from coterie.coordinator.groups.classic.states import GroupState
from coterie.coordinator.groups.classic.step import Step as ClassicStep
from coterie.coordinator.groups.consumer.group import ConsumerGroup
from coterie.coordinator.groups.consumer.group_state import Partitions
from coterie.coordinator.groups.consumer.member import ConsumerMember
from coterie.coordinator.groups.consumer.step import Step
from coterie.coordinator.groups.consumer.timers import TimerKind
from coterie.coordinator.groups.recorded.revocation import cancel_revocation
from coterie.coordinator.groups.sessions import end_session
from coterie.coordinator.kernel.append import Pair
from coterie.coordinator.topic_image import TopicsImage
from coterie.protocol.messages.consumer_group_facts import GroupTypeChanged
from coterie.protocol.messages.consumer_group_records import (
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupTargetAssignmentMemberValue,
)
from coterie.protocol.messages.consumer_protocol import (
    LATEST_VERSION,
    ConsumerProtocolAssignment,
    TopicPartition,
    encode_assignment,
)
from coterie.protocol.messages.log_records import encode_key
from coterie.protocol.wire import Message

# The policies under which a group of classic members becomes a classic group again.
_DOWNGRADING = frozenset({"bidirectional", "downgrade"})
_VERSION_BYTES = 2

# The members, and the partitions that they own, of the largest group that becomes a classic one
# with the member that leaves: some five milliseconds.
_CONVERTED_AT_ONCE = 100
_OWNED_AT_ONCE = 20_000
# How many members of a larger one are converted in one part: some five milliseconds, too.
_CONVERTED_TOGETHER = 100


def is_downgraded_without(step: Step, leaving: Collection[str]) -> bool:
    """Return whether a group becomes a classic one when some members are gone."""
    group, config = step.group, step.partition.config
    gone = [group.members[each] for each in leaving if each in group.members]
    count = len(group.members) - len(gone)
    classic = [each.classic for each in gone if each.classic is not None]
    if not count or group.classic_count - len(classic) != count:
        return False
    # As in every log but a strange one, all have joined with one protocol.
    supported = Counter(group.protocols)
    for each in classic:
        supported.subtract({protocol.name for protocol in each.supported_protocols})
    return (
        config.consumer.migration_policy in _DOWNGRADING
        and count <= config.group_max_size
        and max(supported.values(), default=0) == count
    )


def takes_long(group: ConsumerGroup) -> bool:
    """Return whether a group is so large that it becomes a classic one in steps."""
    return len(group.members) > _CONVERTED_AT_ONCE or group.owned_count > _OWNED_AT_ONCE


class _Converted(NamedTuple):
    """A member as one of a classic group, with what it was made from.

    Attributes:
        subscription, target: its records.
        topics_version: the version of the topics.
        member: the member.
        tombstones: the records that remove it, by the types of their keys.
    """

    subscription: ConsumerGroupMemberMetadataValue | None
    target: ConsumerGroupTargetAssignmentMemberValue | None
    topics_version: int
    member: Member
    tombstones: Mapping[type[Message], Pair]


class Downgrade:
    """The members of a consumer group as those of a classic one, as far as they are converted."""

    __slots__ = ("_converted", "_group")

    def __init__(self, group: ConsumerGroup) -> None:
        self._group = group
        self._converted: dict[str, _Converted] = {}

    def go_on(self, most: int) -> bool:
        """Convert so many of those that are not converted, or have changed since.

        Returns:
            Whether there are none left.
        """
        assert most > 0, "each part does something"
        left = [each for each in self._group.members.values() if self._known(each) is None]
        for member in left[:most]:
            self.member(member)
        return len(left) <= most

    def member(self, member: ConsumerMember) -> Member:
        """Return a member as one of the classic group, without a session."""
        known = self._known(member)
        if known is None:
            group = self._group
            known = self._converted[member.member_id] = _Converted(
                member.subscription,
                group.target_values.get(member.member_id),
                group.topics.version,
                _classic_member(member, group),
                {
                    type(key): (encode_key(key), None)
                    for key in group.member_tombstones(member.member_id)
                },
            )
        assert known.member.member_id == member.member_id, f"{member} is converted as another one"
        return known.member

    def tombstone(self, key: Message) -> Pair | None:
        """Return a record that removes something as bytes; None if it is not encoded yet."""
        known = self._converted.get(getattr(key, "member_id", ""))
        return None if known is None else known.tombstones.get(type(key))

    def _known(self, member: ConsumerMember) -> _Converted | None:
        known = self._converted.get(member.member_id)
        if (
            known is None
            or known.subscription is not member.subscription
            or known.target is not self._group.target_values.get(member.member_id)
            or known.topics_version != self._group.topics.version
        ):
            return None
        return known


def downgrade(
    step: Step,
    leaving: Collection[str],
    generation: int | None = None,
    conversion: Downgrade | None = None,
) -> None:
    """Write a consumer group as a classic group of the members that are left.

    The epoch of the group becomes its generation, and the target of each member its assignment.

    Args:
        step: the step; its group has no records any more afterwards.
        leaving: the ids of members that are gone.
        generation: the generation; by default the epoch of the group.
        conversion: members that are converted already.
    """
    group = step.group
    conversion = Downgrade(group) if conversion is None else conversion
    left = [each for each in group.ordered_members() if each.member_id not in leaving]
    assert left, f"{group} becomes a classic group without members"
    after = Group(group.group_id, step.now_ms)
    for member in left:
        after.add(conversion.member(member), CONSUMER_PROTOCOL_TYPE)
    after.protocol_name = name = after.select_protocol()
    assert name, f"the members of {group} have no protocol in common"
    after.generation_id = group.epoch if generation is None else generation
    after.assigned_generation = after.generation_id
    after.set_subscriptions([each.metadata(name) for each in after.members.values()])
    after.state = GroupState.STABLE
    step.left = list(group.members.values())
    step.dissolve(conversion.tombstone)
    assert len(after.members) == len(left), f"each member of {group} that is left is converted"
    assert group.is_blank, f"{group} has records and is replaced"
    step.write(group_record(after))
    step.becomes = after
    step.facts.append(
        GroupTypeChanged(
            at_ms=step.now_ms,
            group_type=after.group_type,
            previous_type=group.group_type,
            epoch=after.generation_id,
            member_count=len(after.members),
        )
    )


def begin_downgrade(step: Step) -> None:
    """Begin to convert the members of a large group that is to become a classic one.

    It was large with those that have just left; without them it may not be.
    """
    assert is_downgraded_without(step, ()), f"{step.group} stays a consumer group"
    step.group.downgrade = Downgrade(step.group)
    step.arm(TimerKind.DOWNGRADE, "", step.now_ms)


def downgrade_some(step: Step) -> None:
    """Convert some members of a large group, and write the classic group after the last one.

    What happens to the group meanwhile happens to a consumer group. If a member of the consumer
    protocol joins, it stays one. Its generation is the epoch of the target, which is the newest
    that members know: the epoch has risen when the last member of the consumer protocol left.
    """
    group = step.group
    conversion: Downgrade | None = group.downgrade
    if conversion is None or not is_downgraded_without(step, ()):
        group.downgrade = None
    elif not conversion.go_on(_CONVERTED_TOGETHER):
        step.arm(TimerKind.DOWNGRADE, "", step.now_ms)
    else:
        group.downgrade = None
        downgrade(step, (), group.target_epoch, conversion)
        if step.fits():
            begin_classic(step, rebalances=True)


def begin_classic(step: Step, *, rebalances: bool) -> None:
    """Start the sessions of a group that has become a classic one, and perhaps a rebalance."""
    after = step.becomes
    assert isinstance(after, Group), after
    assert not step.group.members, f"{step.group} is replaced and has members"
    assert after.state is GroupState.STABLE, f"{after} begins in the middle of a rebalance"
    for member in step.left:
        cancel_timers(step, member)
    following = ClassicStep(step.partition, after, step.now_ms, step.effects, step.context)
    assert after.exists, f"{after} begins and was given up"
    for each in after.members.values():
        start_session(following, each, each.session_timeout_ms)
    if rebalances:
        prepare_rebalance(following, Cause.DOWNGRADE)


def cancel_timers(step: Step, member: ConsumerMember) -> None:
    """Cancel the timers of a member that is gone, or that is a member of a classic group now."""
    member_id = member.member_id
    end_session(step, member, TimerKind.SESSION)
    cancel_revocation(step, member, TimerKind.REVOCATION)
    if member.awaits_join:
        member.awaits_join = False
        step.cancel(TimerKind.REJOIN, member_id)
    if member.awaits_sync:
        member.awaits_sync = False
        step.cancel(TimerKind.RESYNC, member_id)


def _classic_member(member: ConsumerMember, group: ConsumerGroup) -> Member:
    classic = member.classic
    assert classic is not None, f"{member} does not use the classic protocol"
    protocols = tuple((each.name, each.metadata) for each in classic.supported_protocols)
    converted = Member(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        classic.session_timeout_ms,
        protocols,
    )
    target = group.target(member.member_id)
    converted.assignment = assignment_bytes(target, protocols[0][1], group.topics)
    return converted


def assignment_bytes(
    partitions: "Partitions | dict[bytes, dict[int, int]]", metadata: bytes, topics: TopicsImage
) -> bytes:
    """Return partitions as a classic member reads them.

    Args:
        partitions: by topic id; topics that do not exist any more are left out.
        metadata: the subscription of the member; the assignment has its version.
        topics: the topics of the cluster.
    """
    version = int.from_bytes(metadata[:_VERSION_BYTES], "big", signed=True)
    named: Sequence[TopicPartition] = [
        TopicPartition(topic=topics.by_id[topic_id].name, partitions=sorted(indexes))
        for topic_id, indexes in sorted(partitions.items())
        if topic_id in topics.by_id and indexes
    ]
    assignment = ConsumerProtocolAssignment(assigned_partitions=list(named))
    return encode_assignment(assignment, min(max(version, 0), LATEST_VERSION))
