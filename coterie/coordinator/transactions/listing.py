"""ListTransactions and DescribeTransactions: the ids and their states, for people and tools.

They show memory, which may be ahead of the log for the time of a write [transactions/memory-first].
"""

from collections.abc import Iterator

from coterie.coordinator.transactions.shard import TransactionShard
from coterie.coordinator.transactions.states import STATES_BY_NAME
from coterie.coordinator.transactions.transaction import Transaction
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.describe_transactions import (
    DescribeTransactionsResponseTopic,
    DescribeTransactionsResponseTransaction,
)
from coterie.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponseTransaction,
)

# How many ids are tried before others are served.
_SLICE_IDS = 200


def unknown_states(request: ListTransactionsRequest) -> list[str]:
    """Return the names in a filter that are not names of states, each once."""
    return [name for name in dict.fromkeys(request.state_filters) if name not in STATES_BY_NAME]


def list_transactions(
    shard: TransactionShard, request: ListTransactionsRequest, now_ms: int
) -> Iterator[list[ListTransactionsResponseTransaction]]:
    """Yield the ids of a partition that pass all filters but the pattern, in slices.

    [transactions/list]
    """
    states = {STATES_BY_NAME[name] for name in request.state_filters if name in STATES_BY_NAME}
    producer_ids = frozenset(request.producer_id_filters)
    transactions = list(shard.transactions.values())
    for first in range(0, len(transactions), _SLICE_IDS):
        yield [
            ListTransactionsResponseTransaction(
                transactional_id=each.transactional_id,
                producer_id=each.producer_id,
                transaction_state=each.state.kafka_name,
            )
            for each in transactions[first : first + _SLICE_IDS]
            if (not request.state_filters or each.state in states)
            and (not producer_ids or each.producer_id in producer_ids)
            and (request.duration_filter < 0 or now_ms - each.started_ms > request.duration_filter)
        ]


def describe_transaction(transaction: Transaction) -> DescribeTransactionsResponseTransaction:
    """Return the state of an id [transactions/describe]."""
    return DescribeTransactionsResponseTransaction(
        error_code=ErrorCode.NONE,
        transactional_id=transaction.transactional_id,
        transaction_state=transaction.state.kafka_name,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.started_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.epoch,
        topics=[
            DescribeTransactionsResponseTopic(topic=topic, partitions=indexes)
            for topic, indexes in transaction.by_topic().items()
        ],
    )


def not_described(
    transactional_id: str, error: ErrorCode
) -> DescribeTransactionsResponseTransaction:
    """Return the entry of an id that cannot be described."""
    return DescribeTransactionsResponseTransaction(
        error_code=error, transactional_id=transactional_id, topics=[]
    )
