"""What the journal says of members that do not know their epochs [journal/members]."""

from typing import Any

from coterie.coordinator.groups.share.group import ShareGroup
from coterie.coordinator.kernel.effects import Effects
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.journal_records import MemberFenced
from coterie.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest


def note_fenced_heartbeat(
    effects: Effects[Any],
    now_ms: int,
    group: object,
    request: ShareGroupHeartbeatRequest,
    error: ErrorCode,
) -> None:
    """Note that a heartbeat was refused, if that fences its sender.

    Args:
        effects: receive the fact.
        now_ms: the time.
        group: the group of the request; None or another type if it was refused for that.
        request: the heartbeat.
        error: the error of the answer.
    """
    if error is not ErrorCode.FENCED_MEMBER_EPOCH or type(group) is not ShareGroup:
        return
    effects.note(
        group.group_id,
        MemberFenced(
            at_ms=now_ms,
            member_id=request.member_id,
            group_instance_id=None,
            holder=request.member_id,
            generation_id=group.epoch,
            request="ShareGroupHeartbeat",
            error_code=error,
            said_epoch=request.member_epoch,
            known_epoch=group.members[request.member_id].epoch,
        ),
    )
