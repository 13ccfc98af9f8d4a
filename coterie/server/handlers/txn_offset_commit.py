"""TxnOffsetCommit: offsets of a group that become visible with a transaction (KIP-98).

The server checks which partitions exist, the transaction coordinator whether the producer's
transaction has the partition of the group, and the group coordinator does the rest
[offsets/transactional-checks].
"""

from coterie.coordinator.groups.responses import without_loading
from coterie.coordinator.kernel.request import RequestContext
from coterie.coordinator.topic_image import TopicsImage
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from coterie.protocol.refusals import refusal
from coterie.protocol.topic_names import OFFSETS_TOPIC
from coterie.server.handlers.missing_partitions import MissingPartitions
from coterie.server.network.delayed_response import CompletedResponse, Exchange
from coterie.server.services import Services
from coterie.server.transactions.adding import add_partitions
from coterie.server.transactions.use import TransactionUse

# From this version on the request adds the partition of the group to the transaction.
_ADDS_SINCE = 5
# The first version whose clients know COORDINATOR_LOAD_IN_PROGRESS, and TRANSACTION_ABORTABLE.
_LOADING_SINCE = 2
_ABORTABLE_SINCE = 4

# The levels of requests that add the partition, and of those that do not [transactions/levels].
_ADDING_LEVEL = 2
_VERIFYING_LEVEL = 0

# Errors of the transaction coordinator after which the client sends the request again.
_PASSING = (
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
)

Missing = MissingPartitions[TxnOffsetCommitResponseTopic]


def handle(
    broker: Services, request: TxnOffsetCommitRequest, connection: Exchange
) -> TxnOffsetCommitResponse | None:
    """Commit offsets of the partitions that exist, as a part of a transaction."""
    missing = _take_out_missing(broker.topics.published.image, request)
    if not request.topics:
        return TxnOffsetCommitResponse(topics=missing.merged(()))

    def complete(response: TxnOffsetCommitResponse) -> TxnOffsetCommitResponse:
        response.topics = missing.merged(response.topics)
        return response

    if not request.group_id:
        return complete(refusal(request, ErrorCode.INVALID_GROUP_ID, connection.version))
    version = connection.version
    delayed = CompletedResponse(connection, complete)
    context = RequestContext(connection.client, version, delayed)

    def used(error: ErrorCode) -> None:
        """Go on when the record of the transaction coordinator is durable, or was lost."""
        if error:
            delayed.send(refusal(request, _translate(error, version), version))
        else:
            commit = broker.groups.txn_offset_commit
            broker.groups.submit_delayed(commit, request, context, delayed)

    use = _use(broker, request, version)
    if use.add:
        error = add_partitions(broker, use, used)
    else:
        error = broker.transactions.use_partitions(use, used)
    if error is None:
        # The next request of the producer may end the transaction, so it has to wait.
        connection.delay_and_mute(delayed)
        return None
    if error:
        return complete(refusal(request, _translate(error, version), version))
    commit = broker.groups.txn_offset_commit
    return broker.groups.submit(commit, request, connection, complete=complete)


def _use(broker: Services, request: TxnOffsetCommitRequest, version: int) -> TransactionUse:
    adds = version >= _ADDS_SINCE
    return TransactionUse(
        transactional_id=request.transactional_id,
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
        partitions=((OFFSETS_TOPIC, broker.coordinator.partition_for(request.group_id)),),
        add=adds,
        client_transaction_version=_ADDING_LEVEL if adds else _VERIFYING_LEVEL,
    )


def _translate(error: ErrorCode, version: int) -> ErrorCode:
    """Return an error of the transaction as clients know it [offsets/transactional-errors]."""
    if error in _PASSING:
        error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return without_loading(error) if version < _LOADING_SINCE else error
    if error is ErrorCode.NOT_LEADER_OR_FOLLOWER:
        # Another broker leads the partition of the group, and so coordinates it.
        return ErrorCode.NOT_COORDINATOR
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.TRANSACTION_ABORTABLE and version < _ABORTABLE_SINCE:
        return ErrorCode.INVALID_TXN_STATE
    return error


def _take_out_missing(topics: TopicsImage, request: TxnOffsetCommitRequest) -> Missing:
    missing = MissingPartitions(TxnOffsetCommitResponseTopic, TxnOffsetCommitResponsePartition)
    for asked in request.topics:
        topic = topics.by_name.get(asked.name)
        count = 0 if topic is None else topic.partitions
        missing.take_out(asked, count, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    request.topics = [asked for asked in request.topics if asked.partitions]
    return missing
