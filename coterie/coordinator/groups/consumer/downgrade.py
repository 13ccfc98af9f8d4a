"""The downgrade to a classic group: the last members of the consumer protocol are gone.

[consumer-groups/downgrade]
"""

from collections.abc import Collection, Sequence

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
from coterie.coordinator.topic_image import TopicsImage
from coterie.protocol.messages.consumer_group_facts import GroupTypeChanged
from coterie.protocol.messages.consumer_protocol import (
    LATEST_VERSION,
    ConsumerProtocolAssignment,
    TopicPartition,
    encode_assignment,
)

# The policies under which a group of classic members becomes a classic group again.
_DOWNGRADING = frozenset({"bidirectional", "downgrade"})
_VERSION_BYTES = 2


def is_downgraded_without(step: Step, leaving: Collection[str]) -> bool:
    """Return whether a group becomes a classic one when some members are gone."""
    group, config = step.group, step.partition.config
    left = [each for each in group.members.values() if each.member_id not in leaving]
    return (
        bool(left)
        and all(each.classic is not None for each in left)
        and config.consumer.migration_policy in _DOWNGRADING
        and len(left) <= config.group_max_size
        and _have_common_protocol(left)
    )


def _have_common_protocol(members: Sequence[ConsumerMember]) -> bool:
    """Return whether all have joined with one protocol, as in every log but a strange one."""
    names = [
        {each.name for each in member.classic.supported_protocols}
        for member in members
        if member.classic is not None
    ]
    return bool(set.intersection(*names))


def downgrade(step: Step, leaving: Collection[str], generation: int | None = None) -> None:
    """Write a consumer group as a classic group of the members that are left.

    The epoch of the group becomes its generation, and the target of each member its assignment.

    Args:
        step: the step; its group has no records any more afterwards.
        leaving: the ids of members that are gone.
        generation: the generation; by default the epoch of the group.
    """
    group = step.group
    left = [each for each in group.ordered_members() if each.member_id not in leaving]
    assert left, f"{group} becomes a classic group without members"
    after = Group(group.group_id, step.now_ms)
    for member in left:
        after.add(_classic_member(member, group), CONSUMER_PROTOCOL_TYPE)
    after.protocol_name = name = after.select_protocol()
    after.generation_id = group.epoch if generation is None else generation
    after.assigned_generation = after.generation_id
    after.set_subscriptions([each.metadata(name) for each in after.members.values()])
    after.state = GroupState.STABLE
    step.left = list(group.members.values())
    step.remove(list(group.keys(group.ordered_ids())))
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


def begin_classic(step: Step, *, rebalances: bool) -> None:
    """Start the sessions of a group that has become a classic one, and perhaps a rebalance."""
    after = step.becomes
    assert isinstance(after, Group), after
    assert not step.group.members, f"{step.group} is replaced and has members"
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
    if member.armed_ms:
        member.armed_ms = 0
        step.cancel(TimerKind.SESSION, member_id)
    if member.revocation is not None:
        member.revocation = None
        step.cancel(TimerKind.REVOCATION, member_id)
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
