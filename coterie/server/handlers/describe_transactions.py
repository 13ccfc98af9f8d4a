"""DescribeTransactions: the states of transactional ids (KIP-664) [transactions/describe]."""

from collections.abc import Generator

from coterie.coordinator.transactions.listing import describe_transaction, not_described
from coterie.coordinator.transactions.shard import TransactionShard
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    DescribeTransactionsResponseTransaction,
)
from coterie.server.network.delayed_response import Exchange
from coterie.server.network.sliced_response import answer_in_slices
from coterie.server.services import Services


def handle(
    broker: Services, request: DescribeTransactionsRequest, connection: Exchange
) -> DescribeTransactionsResponse | None:
    """Describe the ids, each once, in the order of the request."""
    return answer_in_slices(broker, connection, _answer(broker, request))


def _answer(
    broker: Services, request: DescribeTransactionsRequest
) -> Generator[None, None, DescribeTransactionsResponse]:
    described = []
    for transactional_id in dict.fromkeys(request.transactional_ids):
        yield
        described.append(_describe(broker, transactional_id))
    return DescribeTransactionsResponse(transaction_states=described)


def _describe(broker: Services, transactional_id: str) -> DescribeTransactionsResponseTransaction:
    if not transactional_id:
        return not_described(transactional_id, ErrorCode.INVALID_REQUEST)
    shard = broker.transaction_runtime.coordinator.available_shard(transactional_id)
    if not isinstance(shard, TransactionShard):
        return not_described(transactional_id, shard)
    transaction = shard.transactions.get(transactional_id)
    if transaction is None:
        return not_described(transactional_id, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    return describe_transaction(transaction)
