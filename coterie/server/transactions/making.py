"""The transaction coordinator of a broker, made of the parts around it."""

from functools import partial

from coterie.coordinator.transactions.service import TransactionCoordinator
from coterie.protocol.record_batch_layout import NO_PRODUCER_ID
from coterie.server.coordinators.host import Host
from coterie.server.features import TRANSACTION_VERSION
from coterie.server.services import Services
from coterie.server.transactions.runtime import TransactionRuntime


def make_transaction_runtime(broker: Services, host: Host) -> TransactionRuntime:
    """Return the runtime of a broker whose topics, features and markers are there."""
    settings, features = broker.settings, broker.features

    def new_producer_id() -> int:
        try:
            return settings.new_producer_id()
        except OSError:
            # The request is refused with an error that the client retries.
            return NO_PRODUCER_ID

    coordinator = TransactionCoordinator(
        broker.config.transaction_config(),
        new_producer_id,
        partial(features.level, TRANSACTION_VERSION),
        host.now_ms(),
    )
    return TransactionRuntime(host, coordinator, broker.controller, broker.markers)
