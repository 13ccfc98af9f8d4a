"""Which group and which member a heartbeat means, and why it is refused."""

from typing import Any, NoReturn, TypeVar

from coterie.coordinator.groups.epochs import JOIN_EPOCH
from coterie.coordinator.groups.partition_state import PartitionState
from coterie.coordinator.groups.recorded.group import M, RecordedGroup
from coterie.coordinator.groups.recorded.member import RecordedMember
from coterie.coordinator.groups.refusal import Refusal
from coterie.protocol.errors import ErrorCode

G = TypeVar("G", bound=RecordedGroup[Any])


def other_type(group_id: str, cls: type[RecordedGroup[Any]]) -> Refusal:
    """Return the refusal of a request about a group of another type than that of a class."""
    return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a {cls.TYPE} group.")


def find_group(partition: PartitionState, group_id: str, cls: type[G]) -> G | None:
    """Return a group of a type; None if there is no group of this id.

    Args:
        partition: the partition of the id.
        group_id: the id.
        cls: the class of the groups of the type.

    Raises:
        Refusal: the group is of another type [share-groups/other-types].
    """
    group = partition.groups.get(group_id)
    if group is None or isinstance(group, cls):
        return group
    raise other_type(group_id, cls)


def existing_group(partition: PartitionState, group_id: str, cls: type[G]) -> G:
    """Return a group of a type.

    Args: those of `find_group`.

    Raises:
        Refusal: there is none, or the group is of another type.
    """
    group = find_group(partition, group_id, cls)
    if group is None:
        raise no_group(group_id)
    return group


def existing_member(group: RecordedGroup[M], member_id: str) -> M:
    """Return a member.

    Raises:
        Refusal: there is none.
    """
    member = group.members.get(member_id)
    if member is None:
        raise unknown_member(group, member_id)
    return member


def find_member(group: RecordedGroup[M], member_id: str, epoch: int) -> M | None:
    """Return the member of a heartbeat that does not leave; None for a new one.

    Raises:
        Refusal: there is no such member, or its epoch is smaller than that of the heartbeat.
    """
    if epoch == JOIN_EPOCH:
        return group.members.get(member_id)
    member = existing_member(group, member_id)
    if epoch > member.epoch:
        refuse_epoch(group, epoch, member)
    return member


def no_group(group_id: str, kind: str = "Group") -> Refusal:
    """Return the refusal of a request about a group that does not exist.

    Args:
        group_id: its id.
        kind: how the text begins; requests that leave do not name the type.
    """
    return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"{kind} {group_id} not found.")


def unknown_member(group: RecordedGroup[Any], member_id: str) -> Refusal:
    """Return the refusal of a request of somebody who is no member."""
    text = f"Member {member_id} is not a member of group {group.group_id}."
    return Refusal(ErrorCode.UNKNOWN_MEMBER_ID, text)


def check_room(group: RecordedGroup[Any], limit: int) -> None:
    """Check that a group has room for one more member.

    Raises:
        Refusal: it has as many as it may.
    """
    if len(group.members) >= limit:
        text = f"The {group.TYPE} group has reached its maximum capacity of {limit} members."
        raise Refusal(ErrorCode.GROUP_MAX_SIZE_REACHED, text)


def check_room_for_group(partition: PartitionState) -> None:
    """Check that a partition has room for one more group [coordinator/group-limit].

    Raises:
        Refusal: it has none.
    """
    if not partition.has_room_for_group():
        raise Refusal(ErrorCode.POLICY_VIOLATION, "There are too many groups.")


def refuse_epoch(
    group: RecordedGroup[Any], epoch: int, member: RecordedMember, more: str = ""
) -> NoReturn:
    """Refuse a heartbeat at another epoch than that of its member.

    Args:
        group: the group.
        epoch: the epoch of the heartbeat.
        member: its member.
        more: what the text says behind the two epochs.

    Raises:
        Refusal: always.
    """
    word = "greater" if epoch > member.epoch else "smaller"
    text = (
        f"The {group.TYPE} group member has a {word} member epoch ({epoch}) than the one known by "
        f"the group coordinator ({member.epoch}){more}. The member must abandon all its partitions "
        "and rejoin."
    )
    raise Refusal(ErrorCode.FENCED_MEMBER_EPOCH, text)
