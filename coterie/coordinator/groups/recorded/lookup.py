"""Which group and which member a heartbeat means, and why it is refused."""

from typing import Any, NoReturn, TypeVar

from coterie.coordinator.groups.partition_state import PartitionState
from coterie.coordinator.groups.recorded.group import RecordedGroup
from coterie.coordinator.groups.refusal import Refusal
from coterie.coordinator.kernel.effects import Effects, R
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.journal_records import MemberFenced

G = TypeVar("G", bound=RecordedGroup[Any])


def other_type(group_id: str, kind: str) -> Refusal:
    """Return the refusal of a request about a group of another type than its own."""
    return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a {kind} group.")


def find_group(partition: PartitionState, group_id: str, cls: type[G], kind: str) -> G | None:
    """Return a group of a type; None if there is no group of this id.

    Args:
        partition: the partition of the id.
        group_id: the id.
        cls: the class of the groups of the type.
        kind: its name.

    Raises:
        Refusal: the group is of another type [share-groups/other-types].
    """
    group = partition.groups.get(group_id)
    if group is None or isinstance(group, cls):
        return group
    raise other_type(group_id, kind)


def find_leaving(
    partition: PartitionState, group_id: str, member_id: str, cls: type[G], kind: str
) -> tuple[G, Any]:
    """Return the group and the member of a heartbeat that leaves.

    Args: those of `find_group`, and the id of the member.

    Raises:
        Refusal: there is no such group or member, or the group is of another type.
    """
    group = find_group(partition, group_id, cls, kind)
    if group is None:
        raise no_group(group_id)
    member = group.members.get(member_id)
    if member is None:
        raise unknown_member(group, member_id)
    return group, member


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


def check_room(group: RecordedGroup[Any], kind: str, limit: int) -> None:
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


def refused(
    partition: PartitionState,
    now_ms: int,
    request: Any,
    refusal: Refusal,
    cls: type[RecordedGroup[Any]],
    response: R,
) -> Effects[R]:
    """Return the answer to a heartbeat that was refused, and note that its sender is fenced.

    Args:
        partition: the partition of the group.
        now_ms: the time.
        request: the heartbeat.
        refusal: why it is refused.
        cls: the class of the groups of its type.
        response: the answer.
    """
    effects = Effects(response)
    group = partition.groups.get(request.group_id)
    if refusal.error is ErrorCode.FENCED_MEMBER_EPOCH and isinstance(group, cls):
        note_fenced(effects, now_ms, group, request, refusal.error)
    return effects


def note_fenced(
    effects: Effects[Any],
    now_ms: int,
    group: RecordedGroup[Any],
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
