"""The upgrade of a classic group: a member of the consumer protocol joins it.

[consumer-groups/upgrade]

The members of a large group are converted in steps before the heartbeat of the joiner is handled;
the upgrade itself converts what has changed meanwhile [consumer-groups/large-upgrade].
"""

from collections.abc import Generator

from coterie.coordinator.groups.classic.group import CONSUMER_PROTOCOL_TYPE, Group, classic
from coterie.coordinator.groups.classic.group_record import group_tombstone
from coterie.coordinator.groups.consumer.conversion import Conversion, refused
from coterie.coordinator.groups.consumer.members import start_session
from coterie.coordinator.groups.consumer.step import Step, records_of
from coterie.coordinator.groups.epochs import JOIN_EPOCH
from coterie.coordinator.groups.partition_state import PartitionState
from coterie.coordinator.groups.refusal import Refusal
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.consumer_group_facts import GroupTypeChanged
from coterie.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

# The policies under which a group of classic members becomes a consumer group.
_UPGRADING = frozenset({"bidirectional", "upgrade"})

# The members, and the bytes of their assignments, that are converted with the heartbeat of the
# joiner: some five milliseconds.
_CONVERTED_AT_ONCE = 64
_CONVERTED_AT_ONCE_BYTES = 20_000
# How often what has changed meanwhile is converted in steps, too. A group that changes faster than
# it is converted is converted with the heartbeat.
_ROUNDS = 5


def upgrade(step: Step, before: Group, conversion: Conversion | None) -> None:
    """Write a classic group with members as a consumer group of the same members.

    Its generation becomes its epoch, and the assignment of each member its target, so that nobody
    has to give anything up. A new target is due at once.

    Args:
        step: a step of the new group.
        before: the classic group.
        conversion: the conversion of a group of this id, if one was begun before the heartbeat.

    Raises:
        Refusal: the group stays a classic one.
    """
    _check(step.partition, before)
    group_id, epoch = before.group_id, before.generation_id
    assert step.creates, f"{step.group} takes the place of {before}"
    if conversion is None or conversion.before is not before:
        conversion = Conversion(before, step.partition.topics)
    group, records, pairs = conversion.finish(epoch)
    assert len(group.members) == len(before.members), f"{group} has the members of {before}"
    step.write(group_tombstone(group_id))
    step.adopt(group, records, pairs)
    step.is_long = _is_large(before)
    assert group.classic_count == len(group.members), f"members of {group} changed their protocol"
    assert group.settled == len(group.members), f"a member of {group} has to give something up"
    step.facts.append(
        GroupTypeChanged(
            at_ms=step.now_ms,
            group_type=group.group_type,
            previous_type=before.group_type,
            epoch=epoch,
            member_count=len(group.members),
        )
    )


def conversion_steps(
    partition: PartitionState, request: ConsumerGroupHeartbeatRequest
) -> Generator[None, None, None] | None:
    """Return the steps that convert a large group before a heartbeat that upgrades it.

    The heartbeat is right without them, too. They may be abandoned.

    Returns:
        None if the heartbeat upgrades no large group.
    """
    if request.member_epoch != JOIN_EPOCH:
        return None
    before = classic(partition.groups.get(request.group_id))
    if before is None or not _is_large(before):
        return None
    try:
        _check(partition, before)
    except Refusal:
        return None
    return _converted_in_steps(partition, before)


def _is_large(before: Group) -> bool:
    """Return whether it takes long to convert a group."""
    members = before.members
    if len(members) > _CONVERTED_AT_ONCE:
        return True
    return sum(len(each.assignment) for each in members.values()) > _CONVERTED_AT_ONCE_BYTES


def _converted_in_steps(partition: PartitionState, before: Group) -> Generator[None, None, None]:
    conversions = records_of(partition).conversions
    conversion = conversions.get(before.group_id)
    if conversion is None or conversion.before is not before:
        conversion = conversions[before.group_id] = Conversion(before, partition.topics)
    for _ in range(_ROUNDS):
        steps = 0
        try:
            for count in conversion.go_on(before.generation_id):
                steps += count
                yield
        except Refusal:
            # The heartbeat answers it.
            return
        if not before.exists or not steps:
            return


def _check(partition: PartitionState, before: Group) -> None:
    """Check whether a group may become a consumer group.

    Raises:
        Refusal: it may not.
    """
    config = partition.config
    if config.consumer.migration_policy not in _UPGRADING:
        raise refused(before, "online upgrade is disabled.")
    if before.protocol_type != CONSUMER_PROTOCOL_TYPE:
        raise refused(before, "the group does not use the consumer embedded protocol.")
    if len(before.members) > config.consumer.max_size:
        raise refused(before, "the group size exceeds the consumer group maximum size.")
    name = before.protocol_name
    if name is None or any(each.metadata_or_none(name) is None for each in before.members.values()):
        # Its first join phase is not over. Kafka fails here, too, and the client asks again.
        raise Refusal(ErrorCode.UNKNOWN_SERVER_ERROR)


def start_classic_sessions(step: Step) -> None:
    """Start the sessions of the members that a group had before it was upgraded.

    The classic group has cancelled its timers.
    """
    for member in step.group.members.values():
        if member.classic is not None:
            start_session(step, member, member.classic.session_timeout_ms)
