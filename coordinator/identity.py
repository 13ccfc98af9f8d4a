"""Who may speak for a member: the check that join, sync, heartbeat, leave and commit share (spec
section 4.4).
"""

from coterie.coordinator.group import Group
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.journal_records import MemberFenced


def identity_error(group: Group, member_id: str, group_instance_id: str | None) -> ErrorCode:
    """NONE if the ids name one member of the group, else why not.

    An instance that another member id holds is fenced: of two processes with one instance id the
    older one loses (KIP-345). That is looked at before the member id, so that a fenced one learns
    it even after its id is gone.
    """
    if group_instance_id is not None:
        holder = group.static_members.get(group_instance_id)
        if holder is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if holder != member_id:
            return ErrorCode.FENCED_INSTANCE_ID
    if member_id not in group.members:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE


def member_fenced(
    group: Group, member_id: str, group_instance_id: str | None, request: str, now_ms: int
) -> MemberFenced:
    """That a process has been told FENCED_INSTANCE_ID.

    Args:
        group: where its instance id is another member's.
        member_id: by which the process goes.
        group_instance_id: of both. Only who names one can be fenced.
        request: what it asked.
        now_ms: the time.
    """
    assert group_instance_id is not None
    return MemberFenced(
        at_ms=now_ms,
        member_id=member_id,
        group_instance_id=group_instance_id,
        holder=group.static_members[group_instance_id],
        generation_id=group.generation_id,
        request=request,
    )
