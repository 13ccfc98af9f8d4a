"""Adding partitions to a transaction while the last one of the producer is about to end.

The end takes less time than another request of the client, so the partitions are added again and
again for a short while (KIP-890) [transactions/adding-again].
"""

from collections.abc import Callable

from coterie.protocol.errors import ErrorCode
from coterie.server.services import Services
from coterie.server.transactions.use import TransactionUse

Done = Callable[[ErrorCode], None]


def add_partitions(broker: Services, use: TransactionUse, done: Done) -> ErrorCode | None:
    """Add partitions to a transaction, as `TransactionUses.use_partitions` does, with patience.

    Args:
        broker: the broker.
        use: the partitions and the producer.
        done: called later if None is returned.

    Returns:
        The error, NONE if all is well; None if `done` is called later.
    """
    config = broker.config
    pause_s = config.get_int("add.partitions.to.txn.retry.backoff.ms") / 1000
    now_ms = broker.environment.now_ms
    deadline_ms = now_ms() + config.get_int("add.partitions.to.txn.retry.backoff.max.ms")

    def attempt() -> ErrorCode | None:
        error = broker.transactions.use_partitions(use, done)
        if error != ErrorCode.CONCURRENT_TRANSACTIONS or now_ms() >= deadline_ms:
            return error
        broker.loop.call_later(pause_s, again)
        return None

    def again() -> None:
        error = attempt()
        if error is not None:
            done(error)

    return attempt()
