"""Heartbeat (API key 12): keep a member's session alive, and learn whether the group rebalances.

v1   throttle_time_ms (KIP-124)
v2   the client itself waits for the throttle time (KIP-219)
v3   group_instance_id (KIP-345)
v4   flexible encoding (KIP-482)
"""

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.wire import Int16, Int32, Message, String, message, since


@message(api_key=ApiKey.HEARTBEAT, flexible=4)
class HeartbeatRequest(Message):
    """The member and its generation."""

    group_id: String
    generation_id: Int32
    member_id: String
    group_instance_id: String | None = since(3, default=None)


@message(api_key=ApiKey.HEARTBEAT, flexible=4)
class HeartbeatResponse(Message):
    """NONE, REBALANCE_IN_PROGRESS, or the reason why the member is not in the group."""

    throttle_time_ms: Int32 = since(1, default=0)
    error_code: Int16
