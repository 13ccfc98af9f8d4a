"""Who may speak for a member: the check that join, sync, heartbeat, leave and commit share (spec
section 4.4).
"""

from coordinator.group import Group
from protocol.errors import ErrorCode


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
