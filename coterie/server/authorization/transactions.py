"""What requests about transactions need, where the declaration does not say all."""

from typing import Any

from coterie.protocol.authorized_operations import AclOperation
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResponsePartition,
    AddPartitionsToTxnResponseTopic,
)
from coterie.protocol.messages.describe_transactions import DescribeTransactionsRequest
from coterie.protocol.messages.init_producer_id import InitProducerIdRequest
from coterie.protocol.messages.list_transactions import ListTransactionsRequest
from coterie.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from coterie.protocol.resources import ResourceType
from coterie.server.authorization.access import ClientAccess
from coterie.server.authorization.declared import Need, check_elements
from coterie.server.authorization.outcome import Allowed, Outcome, answered, refused
from coterie.server.metadata.topic_rules import INTERNAL_TOPICS
from coterie.server.network.delayed_response import Exchange
from coterie.server.services import Services

_ID = ResourceType.TRANSACTIONAL_ID
_DESCRIBED = Need(0, _ID, AclOperation.DESCRIBE, ("transactional_ids", ""))
# From this version on only brokers send an AddPartitionsToTxn.
_BROKERS_SINCE = 4


def init_producer_id(
    _broker: Services, access: ClientAccess, request: InitProducerIdRequest, connection: Exchange
) -> Outcome:
    """Ask for WRITE on the transactional id, or for the right to write idempotently."""
    name, version = request.transactional_id, connection.version
    if name is not None:
        if access.may(AclOperation.WRITE, _ID, name):
            return None
        return refused(request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, version)
    if access.may_quietly(AclOperation.IDEMPOTENT_WRITE, ResourceType.CLUSTER):
        return None
    if access.may_with_any_topic(AclOperation.WRITE):
        return None
    return refused(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, version)


def add_partitions_to_txn(
    broker: Services,
    access: ClientAccess,
    request: AddPartitionsToTxnRequest,
    connection: Exchange,
) -> Outcome:
    """Ask for WRITE on the transactional id and each topic; brokers need CLUSTER_ACTION."""
    version = connection.version
    if version >= _BROKERS_SINCE:
        if access.may_with_cluster(AclOperation.CLUSTER_ACTION):
            return None
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return answered(AddPartitionsToTxnResponse(error_code=error))
    if not access.may(AclOperation.WRITE, _ID, request.transactional_id):
        error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return answered(_answer(request, lambda _name, _index: error))
    names = {each.name for each in request.topics} - set(INTERNAL_TOPICS)
    denied = {
        name
        for name in sorted(names)
        if not access.may(AclOperation.WRITE, ResourceType.TOPIC, name)
    }
    if not denied:
        return None

    def error_of(name: str, index: int) -> ErrorCode:
        if name in denied or name in INTERNAL_TOPICS:
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if not broker.topics.has_partition(name, index):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.OPERATION_NOT_ATTEMPTED

    return answered(_answer(request, error_of))


def _answer(request: AddPartitionsToTxnRequest, error_of: Any) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(
        results_by_topic=[
            AddPartitionsToTxnResponseTopic(
                name=topic.name,
                results_by_partition=[
                    AddPartitionsToTxnResponsePartition(
                        partition_index=index, partition_error_code=error_of(topic.name, index)
                    )
                    for index in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def write_txn_markers(
    _broker: Services, access: ClientAccess, request: WriteTxnMarkersRequest, connection: Exchange
) -> Outcome:
    """Ask for ALTER or CLUSTER_ACTION on the cluster."""
    if access.may_quietly(AclOperation.ALTER, ResourceType.CLUSTER):
        return None
    if access.may_with_cluster(AclOperation.CLUSTER_ACTION):
        return None
    return refused(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, connection.version)


def describe_transactions(
    broker: Services,
    access: ClientAccess,
    request: DescribeTransactionsRequest,
    connection: Exchange,
) -> Outcome:
    """Ask for DESCRIBE on each id; topics without DESCRIBE are left out."""
    outcome = check_elements(broker, access, request, connection, _DESCRIBED)

    def complete(response: Any) -> Any:
        for state in response.transaction_states:
            state.topics = [
                topic
                for topic in state.topics
                if access.may_quietly(AclOperation.DESCRIBE, ResourceType.TOPIC, topic.topic)
            ]
        return response if outcome is None else outcome.complete(response)

    return Allowed(complete)


def list_transactions(
    _broker: Services,
    access: ClientAccess,
    _request: ListTransactionsRequest,
    _connection: Exchange,
) -> Outcome:
    """Leave out ids without DESCRIBE."""

    def complete(response: Any) -> Any:
        response.transaction_states = [
            each
            for each in response.transaction_states
            if access.may_quietly(AclOperation.DESCRIBE, _ID, each.transactional_id)
        ]
        return response

    return Allowed(complete)
