"""What the journal says of a request whose instance id another process has [journal/members].

It is the same for classic members of groups of every type.
"""

from typing import Any

from coterie.coordinator.groups.step import GroupStep
from coterie.protocol.messages.journal_records import MemberFenced


def note_fenced(
    step: GroupStep[Any], member_id: str, group_instance_id: str | None, request: str
) -> None:
    """Note that a process was answered FENCED_INSTANCE_ID.

    Args:
        step: a step of the group in which another member has the instance id.
        member_id: the member id of the process.
        group_instance_id: its instance id; only a request that names one can be fenced.
        request: the API of its request.
    """
    assert group_instance_id is not None, "only an instance id can be fenced"
    holder = step.group.static_members[group_instance_id]
    assert holder != member_id, f"{member_id} is the member of {group_instance_id}"
    step.note(
        MemberFenced(
            at_ms=step.now_ms,
            member_id=member_id,
            group_instance_id=group_instance_id,
            holder=holder,
            generation_id=step.group.logged_generation(),
            request=request,
        )
    )
