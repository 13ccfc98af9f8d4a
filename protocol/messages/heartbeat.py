"""Heartbeat (api key 12): a member says that it lives, and hears whether its group rebalances.

v1   throttle time (KIP-124)
v2   clients throttle themselves (KIP-219)
v3   group_instance_id (KIP-345)
v4   flexible (KIP-482)
"""

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.wire import Int16, Int32, Message, String, message, since


@message(api_key=ApiKey.HEARTBEAT, flexible=4)
class HeartbeatRequest(Message):
    """The member, and the generation it believes to be in."""

    group_id: String
    generation_id: Int32
    member_id: String
    group_instance_id: String | None = since(3, default=None)


@message(api_key=ApiKey.HEARTBEAT, flexible=4)
class HeartbeatResponse(Message):
    """NONE, REBALANCE_IN_PROGRESS, or why the member is no member (any more)."""

    throttle_time_ms: Int32 = since(1, default=0)
    error_code: Int16
