"""EndTxn: commit or abort a transaction (KIP-98) [transactions/end]."""

from coterie.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from coterie.server.network.delayed_response import Exchange
from coterie.server.services import Services


def handle(broker: Services, request: EndTxnRequest, connection: Exchange) -> EndTxnResponse | None:
    """End the transaction; the response leaves when its markers are written."""
    transactions = broker.transaction_runtime
    return transactions.submit(transactions.coordinator.end_transaction, request, connection)
