"""ListTransactions: the transactional ids of this broker (KIP-664) [transactions/list]."""

from collections.abc import Generator

from coterie.coordinator.kernel.shard_state import ShardState, availability_error
from coterie.coordinator.patterns import InvalidPattern, Pattern
from coterie.coordinator.transactions.listing import list_transactions, unknown_states
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    ListTransactionsResponseTransaction,
)
from coterie.server.network.delayed_response import Exchange
from coterie.server.network.sliced_response import answer_in_slices
from coterie.server.services import Services


def handle(
    broker: Services, request: ListTransactionsRequest, connection: Exchange
) -> ListTransactionsResponse | None:
    """Return the ids that pass all filters."""
    try:
        text = request.transactional_id_pattern
        pattern = Pattern(text) if text else None
    except InvalidPattern:
        return _error(ErrorCode.INVALID_REGULAR_EXPRESSION)
    return answer_in_slices(broker, connection, _answer(broker, request, pattern))


def _answer(
    broker: Services, request: ListTransactionsRequest, pattern: Pattern | None
) -> Generator[None, None, ListTransactionsResponse]:
    shards = broker.transaction_runtime.coordinator.shards
    if any(shard.state is ShardState.LOADING for shard in shards):
        return _error(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    now_ms = broker.environment.now_ms()
    found: list[ListTransactionsResponseTransaction] = []
    for shard in shards:
        if not availability_error(shard.state):
            for part in list_transactions(shard, request, now_ms):
                found += [
                    each
                    for each in part
                    if pattern is None or pattern.matches(each.transactional_id)
                ]
                yield
    return ListTransactionsResponse(
        error_code=ErrorCode.NONE,
        unknown_state_filters=unknown_states(request),
        transaction_states=found,
    )


def _error(error: ErrorCode) -> ListTransactionsResponse:
    return ListTransactionsResponse(
        error_code=error, unknown_state_filters=[], transaction_states=[]
    )
