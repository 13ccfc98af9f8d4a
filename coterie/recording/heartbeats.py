"""Which heartbeats a transcript leaves out, because nothing would be otherwise with them.

A heartbeat that was answered without an error is left out if the next request of its member is such
a heartbeat too, and comes before the session would end that the latest written request has begun.
So the last one before anything else is kept, and a session that ends does so when it did
[recording/transcripts].
"""

from typing import Any

from coterie.protocol.messages.heartbeat import HeartbeatRequest
from coterie.protocol.messages.join_group import JoinGroupRequest
from coterie.recording.conversation import RecordedExchange

# A member: its group and its id.
_Member = tuple[str, str]


def superfluous(requests: list[RecordedExchange], handled: dict[int, int]) -> set[int]:
    """Return the numbers of the heartbeats that a transcript leaves out.

    Args:
        requests: the requests about groups, in the order in which they were handled.
        handled: when each was handled, by its number.
    """
    sessions_ms: dict[_Member, int] = {}
    # By member: when its latest written request was handled, and the heartbeat after that.
    written_ms: dict[_Member, int] = {}
    waiting: dict[_Member, RecordedExchange] = {}
    found: set[int] = set()
    for each in requests:
        member = _member_of(each)
        if member is None:
            # It may be about every member, such as a removal by an administrator.
            waiting.clear()
            continue
        at_ms = handled[each.number]
        if isinstance(each.request, JoinGroupRequest):
            sessions_ms[member] = each.request.session_timeout_ms
        before = waiting.pop(member, None)
        if _is_quiet(each):
            if before is not None:
                if at_ms - written_ms.get(member, 0) < sessions_ms.get(member, 0):
                    found.add(before.number)
                else:
                    written_ms[member] = handled[before.number]
            waiting[member] = each
        else:
            written_ms[member] = at_ms
    return found


def _is_quiet(exchange: RecordedExchange) -> bool:
    """Return whether this is a heartbeat that was answered without an error."""
    response: Any = exchange.response
    return (
        isinstance(exchange.request, HeartbeatRequest)
        and response is not None
        and not response.error_code
    )


def _member_of(exchange: RecordedExchange) -> _Member | None:
    """Return the member that has sent a request; one that joins gets its id from the response."""
    request: Any = exchange.request
    member_id = getattr(request, "member_id", "")
    if isinstance(request, JoinGroupRequest):
        member_id = member_id or getattr(exchange.response, "member_id", "")
    return (request.group_id, member_id) if member_id else None
