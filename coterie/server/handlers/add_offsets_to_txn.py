"""AddOffsetsToTxn: add the offsets of a group to a transaction (KIP-98).

It adds the partition of `__consumer_offsets` that has the group. The group need not exist
[transactions/add-partitions].
"""

from coterie.coordinator.transactions.responses import error_of_version
from coterie.protocol.api_keys import ApiKey
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from coterie.protocol.topic_names import OFFSETS_TOPIC
from coterie.server.network.delayed_response import DelayedResponse, Exchange
from coterie.server.services import Services
from coterie.server.transactions.use import TransactionUse


def handle(
    broker: Services, request: AddOffsetsToTxnRequest, connection: Exchange
) -> AddOffsetsToTxnResponse | None:
    """Add the partition of the group."""
    version = connection.version
    partition = broker.coordinator.partition_for(request.group_id)
    use = TransactionUse(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        ((OFFSETS_TOPIC, partition),),
        add=True,
        client_transaction_version=0,
    )
    delayed = DelayedResponse(connection)

    def done(error: ErrorCode) -> None:
        delayed.send(_response(error, version))

    found = broker.transaction_runtime.use_partitions(use, done)
    if found is not None:
        return _response(found, version)
    connection.delay(delayed)
    return None


def _response(error: ErrorCode, version: int) -> AddOffsetsToTxnResponse:
    code = error_of_version(error, ApiKey.ADD_OFFSETS_TO_TXN, version)
    return AddOffsetsToTxnResponse(error_code=code)
