"""Errors as each version of each request carries them, and responses that are only an error."""

from typing import Any

from coterie.coordinator.transactions.operations import TransactionUse
from coterie.coordinator.transactions.transaction import NO_ID, Transaction
from coterie.protocol.api_keys import ApiKey
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from coterie.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

# The first versions in which an old epoch is PRODUCER_FENCED (KIP-588).
FENCED_SINCE = {
    ApiKey.INIT_PRODUCER_ID: 4,
    ApiKey.ADD_PARTITIONS_TO_TXN: 2,
    ApiKey.ADD_OFFSETS_TO_TXN: 2,
    ApiKey.END_TXN: 2,
}


def error_of_version(error: ErrorCode, api: ApiKey, version: int) -> ErrorCode:
    """Return an error as a version of an API has it [transactions/fencing-errors]."""
    if error is ErrorCode.PRODUCER_FENCED and version < FENCED_SINCE[api]:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error


def error_response(request: Any, error: ErrorCode, version: int) -> Any:
    """Return the response to a request that carries nothing but an error.

    Args:
        request: a request, or a `TransactionUse`, whose response is the error itself.
        error: the error.
        version: the version of the request.
    """
    if isinstance(request, InitProducerIdRequest):
        return init_error(error, version)
    if isinstance(request, EndTxnRequest):
        return end_error(error, version)
    assert isinstance(request, TransactionUse), request
    return error


def init_error(error: ErrorCode, version: int) -> InitProducerIdResponse:
    """Return a refused InitProducerId."""
    code = error_of_version(error, ApiKey.INIT_PRODUCER_ID, version)
    return InitProducerIdResponse(error_code=code, producer_epoch=-1)


def end_error(error: ErrorCode, version: int) -> EndTxnResponse:
    """Return a refused EndTxn."""
    return EndTxnResponse(error_code=error_of_version(error, ApiKey.END_TXN, version))


def end_response(transaction: Transaction) -> EndTxnResponse:
    """Return the response to a successful EndTxn: with what the producer goes on."""
    producer_id, epoch = transaction.producer_id, transaction.epoch
    if transaction.next_id != NO_ID:
        producer_id, epoch = transaction.next_id, 0
    return EndTxnResponse(error_code=ErrorCode.NONE, producer_id=producer_id, producer_epoch=epoch)
