"""InitProducerId of a transactional id: a producer takes the id over [transactions/init].

The producers before it are fenced by the next epoch. A producer that names its own id and epoch
(KIP-360) only continues, and a repeated request gets the same answer.
"""

from coterie.coordinator.kernel.effects import Effects
from coterie.coordinator.kernel.request import RequestContext
from coterie.coordinator.transactions.fence import fence_and_abort
from coterie.coordinator.transactions.operations import logging
from coterie.coordinator.transactions.responses import init_error
from coterie.coordinator.transactions.shard import TransactionShard
from coterie.coordinator.transactions.states import EMPTY, ONGOING
from coterie.coordinator.transactions.transaction import (
    LAST_EPOCH,
    NO_EPOCH,
    NO_ID,
    NO_TIME,
    Transaction,
)
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


def init_producer_id(
    shard: TransactionShard,
    now_ms: int,
    request: InitProducerIdRequest,
    context: RequestContext,
    level: int,
) -> Effects[InitProducerIdResponse]:
    """Give the id to the producer that asks, or abort the open transaction of the one before it.

    Args:
        shard: the partition of the id.
        now_ms: the time.
        request: the request, whose fields were checked.
        context: its version is used.
        level: the protocol of the server.
    """
    transaction_id = request.transactional_id
    assert transaction_id, "the server answers producers without transactions"
    transaction = shard.to_change(transaction_id)
    if transaction is None:
        return _create(shard, transaction_id, now_ms, request, context.version)
    if transaction.is_ending:
        return _refused(ErrorCode.CONCURRENT_TRANSACTIONS, context.version)
    if not _may_take_over(transaction, request):
        return _refused(ErrorCode.PRODUCER_FENCED, context.version)
    if transaction.state is ONGOING:
        fenced = fence_and_abort(shard, transaction, now_ms, level)
        # The producer asks again, and gets the id when the abort is complete.
        error = ErrorCode.CONCURRENT_TRANSACTIONS
        if fenced is None:
            error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        effects = _refused(error, context.version)
        effects.operation = fenced
        return effects
    error = _next_epoch(shard, transaction, request.producer_epoch, now_ms)
    if error:
        return _refused(error, context.version)
    return _taken_over(transaction, request)


def _create(
    shard: TransactionShard,
    transactional_id: str,
    now_ms: int,
    request: InitProducerIdRequest,
    version: int,
) -> Effects[InitProducerIdResponse]:
    if len(shard.transactions) >= shard.max_ids:
        return _refused(ErrorCode.POLICY_VIOLATION, version)
    producer_id = shard.new_producer_id()
    if producer_id == NO_ID:
        return _refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, version)
    assert transactional_id not in shard.transactions, f"{transactional_id} exists"
    transaction = Transaction(transactional_id, producer_id, now_ms)
    transaction.raise_epoch(last_epoch=NO_EPOCH)
    assert transaction.epoch == 0, f"{transaction} does not begin with the first epoch"
    effects = _taken_over(transaction, request)
    assert effects.operation is not None, "an id is written when it is taken over"
    effects.operation.creates = transaction
    return effects


def _may_take_over(transaction: Transaction, request: InitProducerIdRequest) -> bool:
    """Return whether a producer that names its id is the present one, or the one before it."""
    named = request.producer_id
    if named in (NO_ID, transaction.producer_id) or transaction.epoch == NO_EPOCH:
        return True
    return named == transaction.previous_id and request.producer_epoch >= LAST_EPOCH


def _next_epoch(
    shard: TransactionShard, transaction: Transaction, named_epoch: int, now_ms: int
) -> ErrorCode:
    """Give an id without an open transaction its next epoch, or another producer id.

    Args:
        shard: the partition of the id.
        transaction: the id.
        named_epoch: the epoch that the producer names; -1 for none.
        now_ms: the time.
    """
    is_new = named_epoch == NO_EPOCH
    is_current = is_new or named_epoch == transaction.epoch
    last_epoch = NO_EPOCH if is_new else transaction.epoch
    if is_current and transaction.is_exhausted:
        producer_id = shard.new_producer_id()
        if producer_id == NO_ID:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        transaction.enter(EMPTY, now_ms)
        transaction.replace_producer(producer_id, last_epoch=last_epoch)
        return ErrorCode.NONE
    if is_current or transaction.epoch == NO_EPOCH:
        transaction.enter(EMPTY, now_ms)
        transaction.raise_epoch(last_epoch=last_epoch)
        return ErrorCode.NONE
    if named_epoch == transaction.last_epoch:
        # The response to an earlier request was lost.
        transaction.enter(EMPTY, now_ms)
        return ErrorCode.NONE
    return ErrorCode.PRODUCER_FENCED


def _taken_over(
    transaction: Transaction, request: InitProducerIdRequest
) -> Effects[InitProducerIdResponse]:
    assert transaction.state is EMPTY, f"{transaction} is taken over in use"
    assert transaction.waiting_end is None, f"an EndTxn waits for {transaction}"
    transaction.timeout_ms = request.transaction_timeout_ms
    transaction.started_ms = NO_TIME
    transaction.partitions = {}
    effects: Effects[InitProducerIdResponse] = Effects(
        InitProducerIdResponse(
            error_code=ErrorCode.NONE,
            producer_id=transaction.producer_id,
            producer_epoch=transaction.epoch,
        )
    )
    effects.operation = logging(transaction)
    return effects


def _refused(error: ErrorCode, version: int) -> Effects[InitProducerIdResponse]:
    return Effects(init_error(error, version))
