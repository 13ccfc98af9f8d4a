"""The brokers that a mark or a test case describes: one or several, here or in another process."""

from typing import Any

from coterie.testing.broker import Broker
from coterie.testing.cluster import Cluster


def described_brokers(
    brokers: int = 1, *, process: bool = False, **options: Any
) -> Broker | Cluster:
    """Return a broker, or a cluster of several, that is not started.

    Args:
        brokers: how many.
        process: whether they have a process of their own.
        options: those of `Broker` or `Cluster`.

    Raises:
        WrongUse: a value cannot be used.
    """
    if not process:
        return Broker(**options) if brokers == 1 else Cluster(brokers, **options)
    # Most tests have their brokers in a thread, and start faster without these imports.
    if brokers == 1:
        from coterie.control.process_broker import ProcessBroker

        return ProcessBroker(**options)
    from coterie.control.process_cluster import ProcessCluster

    return ProcessCluster(brokers, **options)
