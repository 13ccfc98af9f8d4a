"""The brokers that a mark describes: one, or several."""

import inspect
from typing import Any

from coterie.testing.broker import Broker
from coterie.testing.cluster import Cluster
from coterie.testing.errors import WrongUse


def described_brokers(brokers: int = 1, **options: Any) -> Broker | Cluster:
    """Return a broker, or a cluster of several, that is not started.

    Args:
        brokers: how many.
        options: those of `Broker` or `Cluster`.

    Raises:
        WrongUse: several brokers do not have an option, or a value cannot be used.
    """
    if brokers == 1:
        return Broker(**options)
    known = inspect.signature(Cluster).parameters
    if unknown := sorted(options.keys() - known):
        raise WrongUse(f"with brokers={brokers} there is no {', '.join(unknown)} yet")
    return Cluster(brokers, **options)
