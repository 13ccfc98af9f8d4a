"""EndTxn: a producer commits or aborts its transaction [transactions/end].

The decision is written first and then the markers. The response leaves when the markers are
durable, so the next read of the client sees the transaction ended [transactions/end].
"""

from typing import NamedTuple

from coterie.coordinator.kernel.effects import Effects
from coterie.coordinator.kernel.request import RequestContext
from coterie.coordinator.transactions.fence import next_producer_id
from coterie.coordinator.transactions.operations import logging
from coterie.coordinator.transactions.responses import end_error, end_response
from coterie.coordinator.transactions.shard import TransactionShard
from coterie.coordinator.transactions.states import COMPLETE_COMMIT, EMPTY, ONGOING
from coterie.coordinator.transactions.transaction import (
    BUMPING_LEVEL,
    LAST_EPOCH,
    Transaction,
    WaitingEnd,
    can_be_logged,
)
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse

# From this version on the end raises the epoch.
_RAISES_EPOCH_SINCE = 5


class _Verdict(NamedTuple):
    """What an EndTxn leads to.

    Attributes:
        error: why it is refused, or NONE.
        has_ended: whether the transaction has ended as the request wants it.
    """

    error: ErrorCode
    has_ended: bool = False


_END = _Verdict(ErrorCode.NONE)
_HAS_ENDED = _Verdict(ErrorCode.NONE, has_ended=True)
_OTHER_PRODUCER = _Verdict(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
_FENCED = _Verdict(ErrorCode.PRODUCER_FENCED)
_ENDING = _Verdict(ErrorCode.CONCURRENT_TRANSACTIONS)
_WRONG_STATE = _Verdict(ErrorCode.INVALID_TXN_STATE)


def end_transaction(
    shard: TransactionShard,
    now_ms: int,
    request: EndTxnRequest,
    context: RequestContext,
    server_level: int,
) -> Effects[EndTxnResponse]:
    """Decide the end of a transaction, or answer for one that has ended."""
    version = context.version
    transaction = shard.to_change(request.transactional_id)
    if transaction is None:
        return Effects(end_error(ErrorCode.INVALID_PRODUCER_ID_MAPPING, version))
    raises_epoch = version >= _RAISES_EPOCH_SINCE
    verdict = (
        _newer_verdict(transaction, request) if raises_epoch else _verdict(transaction, request)
    )
    if verdict.error:
        return Effects(end_error(verdict.error, version))
    if verdict.has_ended:
        return Effects(end_response(transaction))
    level = BUMPING_LEVEL if raises_epoch else 0
    if not can_be_logged(level, server_level):
        return Effects(end_error(ErrorCode.UNSUPPORTED_VERSION, version))
    next_id = next_producer_id(shard, transaction, level)
    if next_id is None:
        return Effects(end_error(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, version))
    transaction.prepare(commit=request.committed, level=level, next_id=next_id, now_ms=now_ms)
    assert context.to is not None, "a delayed response has an address"
    transaction.waiting_end = WaitingEnd(context.to, version)
    effects: Effects[EndTxnResponse] = Effects()
    effects.operation = logging(transaction)
    return effects


def _verdict(transaction: Transaction, request: EndTxnRequest) -> _Verdict:
    """Return what an EndTxn up to version 4 leads to [transactions/end-older]."""
    if transaction.producer_id != request.producer_id:
        return _OTHER_PRODUCER
    if transaction.epoch != request.producer_epoch:
        return _FENCED
    if transaction.is_ending:
        return _ENDING
    if transaction.state is ONGOING:
        return _END
    if transaction.state is EMPTY:
        return _WRONG_STATE
    return _HAS_ENDED if _ended_so(transaction, request) else _WRONG_STATE


def _newer_verdict(transaction: Transaction, request: EndTxnRequest) -> _Verdict:
    """Return what an EndTxn from version 5 on leads to [transactions/end-newer].

    The end raises the epoch, so a request with the epoch before the present one may be the repeated
    one that has ended the transaction.
    """
    if transaction.is_ending:
        return _ENDING
    epoch = request.producer_epoch
    has_rolled_over = (
        request.producer_id == transaction.previous_id
        and epoch == LAST_EPOCH
        and transaction.epoch == 0
    )
    if transaction.producer_id != request.producer_id and not has_rolled_over:
        return _OTHER_PRODUCER
    if not has_rolled_over and epoch == transaction.epoch:
        if transaction.state is ONGOING or not request.committed:
            return _END
        return _WRONG_STATE
    is_retry = has_rolled_over or epoch + 1 == transaction.epoch
    if not is_retry or transaction.state in (ONGOING, EMPTY):
        return _FENCED
    return _HAS_ENDED if _ended_so(transaction, request) else _WRONG_STATE


def _ended_so(transaction: Transaction, request: EndTxnRequest) -> bool:
    """Return whether a transaction that has ended was committed, or aborted, as requested."""
    return (transaction.state is COMPLETE_COMMIT) is request.committed
