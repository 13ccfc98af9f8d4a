"""RemoveRaftVoter (API key 81): remove a voter from the quorum of controllers (KIP-853).

v0   flexible encoding
"""

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.wire import (
    Int16,
    Int32,
    Message,
    String,
    Uuid,
    message,
)


@message(api_key=ApiKey.REMOVE_RAFT_VOTER, flexible=0)
class RemoveRaftVoterRequest(Message):
    """The voter to remove."""

    cluster_id: String | None
    voter_id: Int32
    voter_directory_id: Uuid


@message(api_key=ApiKey.REMOVE_RAFT_VOTER, flexible=0)
class RemoveRaftVoterResponse(Message):
    """The result."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: String | None
