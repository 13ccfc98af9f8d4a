"""The metrics of logins and access: who is connected, who failed, and who was refused.

Names of principals come from clients, so a metric has a bounded number of them, and one sample for
all others [metrics/principals].
"""

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from coterie.server.authorization.access import MOST_PRINCIPALS, OTHERS
from coterie.server.security.logins import NO_MECHANISM, Failure, LoginCounts
from coterie.server.security.shown import shown

if TYPE_CHECKING:
    from coterie.server.broker import Broker
    from coterie.server.shared_parts import SharedParts

_SOCKETS = "kafka.server:type=socket-server-metrics,name="


def principal_connections(broker: "Broker") -> Metric:
    """Return how many connections each principal has."""
    family = GaugeMetricFamily(
        "coterie_principal_connections", "Open connections by principal.", labels=["principal"]
    )
    for principal, count in _bounded(broker.connection_quotas.principals()):
        family.add_metric([principal], count)
    return family


def denials(shared: "SharedParts") -> Metric:
    """Return how often the authorizer, which the brokers of a process share, has refused."""
    family = CounterMetricFamily(
        "coterie_authorizer_denials",
        "Operations that the authorizer has denied, by principal.",
        labels=["principal"],
    )
    if shared.access is not None:
        for principal, count in shared.access.denials.items():
            family.add_metric([shown(principal)], count)
    return family


def login_metrics(broker: "Broker") -> Iterator[Metric]:
    """Yield the logins."""
    logins, late = broker.logins, broker.connection_quotas.late_logins
    yield from _logins("authentication", "Logins", logins.first, late)
    yield from _logins("reauthentication", "Later logins on a connection", logins.again, Counter())


def _logins(name: str, text: str, counts: LoginCounts, late: Counter[str]) -> Iterator[Metric]:
    succeeded = CounterMetricFamily(
        f"kafka_server_successful_{name}",
        f"{_SOCKETS}successful-{name}-total. {text} that succeeded, by listener and mechanism.",
        labels=["listener", "mechanism"],
    )
    for labels, count in sorted(counts.succeeded.items()):
        succeeded.add_metric(labels, count)
    yield succeeded
    failed = CounterMetricFamily(
        f"kafka_server_failed_{name}",
        f"{_SOCKETS}failed-{name}-total. {text} that failed, by listener, mechanism and reason.",
        labels=["listener", "mechanism", "reason"],
    )
    timeouts = {(each, NO_MECHANISM, Failure.TIMEOUT): count for each, count in late.items()}
    all_failed = counts.failed | Counter(timeouts)
    for (listener, mechanism, failure), count in all_failed.items():
        failed.add_metric([listener, mechanism, failure.value], count)
    yield failed


def _bounded(counts: Counter[str]) -> Iterator[tuple[str, int]]:
    """Yield the most frequent principals with their counts, and the sum of the others."""
    most = counts.most_common(MOST_PRINCIPALS)
    for principal, count in most:
        yield shown(principal), count
    rest = counts.total() - sum(count for _, count in most)
    if rest:
        yield OTHERS, rest
