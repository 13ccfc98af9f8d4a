"""Which member a request is from, and whether it knows the member's epoch.

| epoch of the request   | the member                              | answer                        |
|------------------------|-----------------------------------------|-------------------------------|
| 0                      | is not known                            | a new member                  |
| 0                      | is known                                | it keeps epoch and assignment |
| larger than the known  |                                         | FENCED_MEMBER_EPOCH           |
| the known one          |                                         | accepted                      |
| the one before it      | owns nothing but what is assigned to it | accepted: an answer was lost  |
| any other              |                                         | FENCED_MEMBER_EPOCH           |

[consumer-groups/member-epochs] [consumer-groups/static-members]
"""

from coterie.coordinator.groups.consumer.group import ConsumerGroup
from coterie.coordinator.groups.consumer.member import ConsumerMember
from coterie.coordinator.groups.consumer.reconciliation import OwnedNow
from coterie.coordinator.groups.consumer.states import STATIC_LEAVE_EPOCH
from coterie.coordinator.groups.epochs import JOIN_EPOCH
from coterie.coordinator.groups.recorded.lookup import refuse_epoch, unknown_member
from coterie.coordinator.groups.refusal import Refusal
from coterie.protocol.errors import ErrorCode


def find_member(
    group: ConsumerGroup,
    member_id: str,
    instance_id: str | None,
    epoch: int,
    owned: OwnedNow | None,
) -> ConsumerMember | None:
    """Return the member of a heartbeat; None for a new one.

    A static member may be returned under another id: the request takes its place then.

    Raises:
        Refusal: there is no such member, or the request does not know its epoch.
    """
    if instance_id is None:
        member = group.members.get(member_id)
        if member is None:
            if epoch == JOIN_EPOCH:
                return None
            raise unknown_member(group, member_id)
        check_epoch(group, member, epoch, owned)
        return member
    if epoch == JOIN_EPOCH:
        holder = group.static_members.get(instance_id)
        if holder is None:
            return group.members.get(member_id)
        member = group.members[holder]
        assert member.instance_id == instance_id, f"{member} is not {instance_id}"
        if member.classic is None and member.epoch != STATIC_LEAVE_EPOCH:
            raise Refusal(
                ErrorCode.UNRELEASED_INSTANCE_ID,
                f"Static member {member_id} with instance id {instance_id} cannot join the group "
                f"because the instance id is owned by {holder} member.",
            )
        return member
    member = static_member(group, member_id, instance_id)
    check_epoch(group, member, epoch, owned)
    return member


def static_member(group: ConsumerGroup, member_id: str, instance_id: str) -> ConsumerMember:
    """Return the member with an instance id.

    Raises:
        Refusal: nobody has it, or another member has.
    """
    holder = group.static_members.get(instance_id)
    if holder is None:
        raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if holder != member_id:
        raise Refusal(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member "
            f"{holder}.",
        )
    member = group.members[holder]
    assert member.instance_id == instance_id, f"{member} has another instance than {instance_id}"
    return member


def check_epoch(
    group: ConsumerGroup, member: ConsumerMember, epoch: int, owned: OwnedNow | None
) -> None:
    """Check whether a request knows the epoch of its member.

    Args:
        group: the group.
        member: the member.
        epoch: of the request.
        owned: what the member says that it owns; None if it does not say.

    Raises:
        Refusal: it does not.
    """
    known = member.epoch
    if epoch in (known, JOIN_EPOCH):
        return
    if epoch < known and epoch == member.previous_epoch and _owns_assigned(member, owned):
        # The answer with the new epoch was lost.
        return
    refuse_epoch(group, epoch, member)


def _owns_assigned(member: ConsumerMember, owned: OwnedNow | None) -> bool:
    """Return whether a member says that it owns nothing but what is assigned to it."""
    return owned is not None and all(
        index in member.assigned.get(topic_id, ())
        for topic_id, indexes in owned.items()
        for index in indexes
    )
