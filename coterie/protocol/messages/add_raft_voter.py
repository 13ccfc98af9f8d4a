"""AddRaftVoter (API key 80): add a voter to the quorum of controllers (KIP-853).

v0   flexible encoding
v1   ack_when_committed (KIP-1186)
"""

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.wire import (
    Boolean,
    Int16,
    Int32,
    Message,
    String,
    Struct,
    Uint16,
    Uuid,
    message,
    since,
    struct,
)


@struct
class AddRaftVoterRequestListener(Struct):
    """The address of a listener."""

    name: String
    host: String
    port: Uint16


@message(api_key=ApiKey.ADD_RAFT_VOTER, flexible=0)
class AddRaftVoterRequest(Message):
    """The voter to add."""

    cluster_id: String | None
    timeout_ms: Int32
    voter_id: Int32
    voter_directory_id: Uuid
    listeners: list[AddRaftVoterRequestListener]
    ack_when_committed: Boolean = since(1, default=True)


@message(api_key=ApiKey.ADD_RAFT_VOTER, flexible=0)
class AddRaftVoterResponse(Message):
    """The result."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: String | None
