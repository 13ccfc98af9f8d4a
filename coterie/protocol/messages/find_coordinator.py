"""FindCoordinator (API key 10): the broker that coordinates a group or transactional id.

v1   key_type, throttle_time_ms and error_message (KIP-98)
v2   the client itself waits for the throttle time (KIP-219)
v3   flexible encoding (KIP-482)
v4   several keys in one request (KIP-699)
v5   the error may be TRANSACTION_ABORTABLE (KIP-890)
v6   share groups (KIP-932)
"""

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.wire import (
    Int8,
    Int16,
    Int32,
    Message,
    String,
    Struct,
    message,
    since,
    struct,
    until,
)


@message(api_key=ApiKey.FIND_COORDINATOR, flexible=3)
class FindCoordinatorRequest(Message):
    """The keys to look up: `key` to v3, `coordinator_keys` from v4 on.

    key_type: 0 for groups, 1 for transactional ids, 2 for share partitions.
    """

    key: String = until(3, default="")
    key_type: Int8 = since(1, default=0)
    coordinator_keys: list[String] = since(4, factory=list)


@struct
class FindCoordinatorResponseCoordinator(Struct):
    """The coordinator of one key."""

    key: String
    node_id: Int32
    host: String
    port: Int32
    error_code: Int16
    error_message: String | None = None


@message(api_key=ApiKey.FIND_COORDINATOR, flexible=3)
class FindCoordinatorResponse(Message):
    """The coordinator of `key` to v3; `coordinators`, one for each key, from v4 on."""

    throttle_time_ms: Int32 = since(1, default=0)
    error_code: Int16 = until(3, default=0)
    error_message: String | None = since(1, last=3, default=None)
    node_id: Int32 = until(3, default=0)
    host: String = until(3, default="")
    port: Int32 = until(3, default=0)
    coordinators: list[FindCoordinatorResponseCoordinator] = since(4, factory=list)
