"""UnregisterBroker, AddRaftVoter, RemoveRaftVoter: the one broker stays the only one.

[topics/one-broker], [topics/quorum]
"""

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from coterie.protocol.messages.remove_raft_voter import (
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)
from coterie.protocol.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from coterie.protocol.wire import ZERO_UUID
from coterie.server.network.delayed_response import Exchange
from coterie.server.network.route import Handler
from coterie.server.services import Services

# An error, and its text for the client.
_Refusal = tuple[ErrorCode, str]


def _unregister(
    broker: Services, request: UnregisterBrokerRequest, _connection: Exchange
) -> UnregisterBrokerResponse:
    if request.broker_id == broker.node_id:
        # Kafka removes its own registration and stops serving. Here a broker that runs stays.
        return UnregisterBrokerResponse(error_code=ErrorCode.NONE, error_message="")
    return UnregisterBrokerResponse(
        error_code=ErrorCode.BROKER_ID_NOT_REGISTERED,
        error_message=f"Broker ID {request.broker_id} is not currently registered",
    )


def _add(
    broker: Services, request: AddRaftVoterRequest, _connection: Exchange
) -> AddRaftVoterResponse:
    is_valid = request.voter_id >= 0 and request.voter_directory_id != ZERO_UUID
    error, text = _refusal(broker, request.cluster_id, "Add", "adding", is_valid=is_valid)
    return AddRaftVoterResponse(error_code=error, error_message=text)


def _remove(
    broker: Services, request: RemoveRaftVoterRequest, _connection: Exchange
) -> RemoveRaftVoterResponse:
    is_valid = request.voter_id >= 0 and request.voter_directory_id != ZERO_UUID
    error, text = _refusal(broker, request.cluster_id, "Remove", "removing", is_valid=is_valid)
    return RemoveRaftVoterResponse(error_code=error, error_message=text)


def _refusal(
    broker: Services, cluster_id: str | None, verb: str, doing: str, *, is_valid: bool
) -> _Refusal:
    own = broker.image.cluster_id
    if cluster_id is not None and cluster_id != own:
        text = f'The given id "{cluster_id}" doesn\'t match the cluster id "{own}"'
        return ErrorCode.INCONSISTENT_CLUSTER_ID, text
    if not is_valid:
        return ErrorCode.INVALID_REQUEST, f"{verb} voter request didn't include a valid voter"
    text = f"Cluster doesn't support {doing} voter because the kraft.version feature is 0"
    return ErrorCode.UNSUPPORTED_VERSION, text


HANDLERS: dict[ApiKey, Handler] = {
    ApiKey.UNREGISTER_BROKER: _unregister,
    ApiKey.ADD_RAFT_VOTER: _add,
    ApiKey.REMOVE_RAFT_VOTER: _remove,
}
