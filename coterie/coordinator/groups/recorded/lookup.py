"""Which group and which member a heartbeat means, and why it is refused."""

from typing import Any, NoReturn

from coterie.coordinator.groups.partition_state import PartitionState
from coterie.coordinator.groups.recorded.group import RecordedGroup
from coterie.coordinator.groups.refusal import Refusal
from coterie.coordinator.kernel.effects import Effects
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.journal_records import MemberFenced


def other_type(group_id: str, kind: str) -> Refusal:
    """Return the refusal of a request about a group of another type than its own."""
    return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a {kind} group.")


def refuse_other_type(partition: PartitionState, group_id: str, kind: str) -> None:
    """Check that there is no group of an id, after none of this type was found.

    Args:
        partition: the partition of the id.
        group_id: the id.
        kind: the type of groups.

    Raises:
        Refusal: the group is of another type.
    """
    if group_id in partition.groups:
        raise other_type(group_id, kind)


def no_group(group_id: str, kind: str = "Group") -> Refusal:
    """Return the refusal of a request about a group that does not exist.

    Args:
        group_id: its id.
        kind: how the text begins; requests that leave do not name the type.
    """
    return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"{kind} {group_id} not found.")


def unknown_member(group: RecordedGroup, member_id: str) -> Refusal:
    """Return the refusal of a request of somebody who is no member."""
    text = f"Member {member_id} is not a member of group {group.group_id}."
    return Refusal(ErrorCode.UNKNOWN_MEMBER_ID, text)


def check_room(group: RecordedGroup, kind: str, limit: int) -> None:
    """Check that a group has room for one more member.

    Raises:
        Refusal: it has as many as it may.
    """
    if len(group.members) >= limit:
        text = f"The {kind} group has reached its maximum capacity of {limit} members."
        raise Refusal(ErrorCode.GROUP_MAX_SIZE_REACHED, text)


def refuse_epoch(kind: str, said: int, known: int, more: str = "") -> NoReturn:
    """Refuse a heartbeat at another epoch than that of its member.

    Args:
        kind: the type of groups.
        said: the epoch of the heartbeat.
        known: that of the member.
        more: what the text says behind the two.

    Raises:
        Refusal: always.
    """
    word = "greater" if said > known else "smaller"
    text = (
        f"The {kind} group member has a {word} member epoch ({said}) than the one known by the "
        f"group coordinator ({known}){more}. The member must abandon all its partitions and rejoin."
    )
    raise Refusal(ErrorCode.FENCED_MEMBER_EPOCH, text)


def note_fenced(
    effects: Effects[Any],
    now_ms: int,
    group: RecordedGroup,
    request: Any,
    error: ErrorCode,
    holder: str | None = None,
) -> None:
    """Note that a heartbeat was refused whose sender is not the member that it says it is.

    [journal/members]

    Args:
        effects: receive the fact.
        now_ms: the time.
        group: the group of the request.
        request: the heartbeat.
        error: the error of the answer.
        holder: the member that has the instance id of the request; None for its member id.
    """
    member_id: str = holder or request.member_id
    assert member_id in group.members, f"{member_id} is no member of {group} and is fenced"
    effects.note(
        group.group_id,
        MemberFenced(
            at_ms=now_ms,
            member_id=request.member_id,
            group_instance_id=None if holder is None else request.instance_id,
            holder=member_id,
            generation_id=group.epoch,
            request=type(request).__name__.removesuffix("Request"),
            error_code=error,
            said_epoch=request.member_epoch,
            known_epoch=group.members[member_id].epoch,
        ),
    )
