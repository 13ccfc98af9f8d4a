"""Which group and which member a request means."""

from coterie.coordinator.groups.epochs import JOIN_EPOCH
from coterie.coordinator.groups.partition_state import PartitionState
from coterie.coordinator.groups.refusal import Refusal
from coterie.coordinator.groups.share.group import ShareGroup
from coterie.coordinator.groups.share.member import ShareMember
from coterie.protocol.errors import ErrorCode


def find_group(partition: PartitionState, group_id: str) -> ShareGroup | None:
    """Return a share group; None if there is no group of this id.

    Raises:
        Refusal: the group is of another type [share-groups/other-types].
    """
    group = partition.groups.get(group_id)
    if isinstance(group, ShareGroup):
        return group
    if group is None and group_id not in partition.logged.other_groups:
        return None
    raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a share group.")


def find_member(group: ShareGroup, member_id: str, epoch: int) -> ShareMember | None:
    """Return the member that sends a heartbeat; None if it joins [share-groups/member-epochs].

    Raises:
        Refusal: there is no such member, or it does not know its epoch.
    """
    member = group.members.get(member_id)
    if epoch == JOIN_EPOCH:
        return member
    if member is None:
        raise unknown_member(group, member_id)
    known = member.epoch
    if epoch > known:
        raise _fenced(f"greater member epoch ({epoch}) than the one known by the group coordinator"
                      f" ({known})")  # fmt: skip
    if epoch < known and epoch != member.previous_epoch:
        raise _fenced(f"smaller member epoch ({epoch}) than the one known by the group coordinator"
                      f" ({known}), and it does not match the previous member epoch"
                      f" ({member.previous_epoch})")  # fmt: skip
    return member


def unknown_member(group: ShareGroup, member_id: str) -> Refusal:
    """Return the refusal of a request of somebody who is no member."""
    text = f"Member {member_id} is not a member of group {group.group_id}."
    return Refusal(ErrorCode.UNKNOWN_MEMBER_ID, text)


def _fenced(what: str) -> Refusal:
    return Refusal(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The share group member has a {what}. The member must abandon all its partitions and "
        "rejoin.",
    )
