"""The metrics of several brokers of one process, collected when they are scraped.

What each broker has gets the label `broker` with its id. What they share, such as the logs and the
process, is there once and without the label, so a sum over brokers counts nothing twice
[metrics/several-brokers].
"""

from collections import Counter
from collections.abc import Iterable

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily

from coterie.server.brokers import Cluster
from coterie.server.cluster.image import NO_LEADER
from coterie.server.metrics.metrics import (
    PARTITIONS_PER_TURN,
    collect_of_broker,
    collect_shared,
)

_LABEL = "broker"
_REPLICAS = "kafka.server:type=ReplicaManager,name="
_CONTROLLER = "kafka.controller:type=KafkaController,name="


async def collect_brokers(cluster: Cluster) -> list[Metric]:
    """Return all metrics of the brokers that run, and of what they share."""
    families: dict[str, Metric] = {}
    # A copy, because brokers come and go between two turns.
    for node_id, broker in sorted(cluster.brokers.items()):
        for metric in await collect_of_broker(broker):
            _add(families, metric, node_id)
    return [
        *families.values(),
        _running(cluster),
        *await _partitions(cluster),
        *await collect_shared(cluster.shared, cluster.started_ms),
    ]


def _add(families: dict[str, Metric], metric: Metric, node_id: int) -> None:
    """Add the samples of one broker to a family."""
    family = families.setdefault(
        metric.name, Metric(metric.name, metric.documentation, metric.type)
    )
    for sample in metric.samples:
        labels = {_LABEL: str(node_id), **sample.labels}
        family.add_sample(sample.name, labels, sample.value)


def _running(cluster: Cluster) -> Metric:
    running = [(each, each in cluster.brokers) for each in cluster.shared.node_ids]
    return _by_broker(
        "coterie_broker_running", "1 while a broker runs, 0 while it is down.", running
    )


async def _partitions(cluster: Cluster) -> list[Metric]:
    """Return who leads how much, and which partitions lack replicas or a leader."""
    led: Counter[int] = Counter()
    lacking: Counter[int] = Counter()
    offline = seen = 0
    for placed in list(cluster.leadership.image.placements.values()):
        for where in placed:
            if where.leader_id == NO_LEADER:
                offline += 1
            else:
                led[where.leader_id] += 1
                lacking[where.leader_id] += len(where.isr) < len(where.replicas)
            seen += 1
            if seen % PARTITIONS_PER_TURN == 0:
                await cluster.shared.environment.next_turn()
    node_ids = cluster.shared.node_ids
    return [
        _by_broker(
            "kafka_server_leader_count",
            f"{_REPLICAS}LeaderCount. Partitions that a broker leads.",
            [(each, led[each]) for each in node_ids],
        ),
        _by_broker(
            "kafka_server_under_replicated_partitions",
            f"{_REPLICAS}UnderReplicatedPartitions. Partitions that a broker leads and that have"
            " fewer replicas in sync than replicas.",
            [(each, lacking[each]) for each in node_ids],
        ),
        GaugeMetricFamily(
            "kafka_controller_offline_partitions_count",
            f"{_CONTROLLER}OfflinePartitionsCount. Partitions without a leader.",
            offline,
        ),
    ]


def _by_broker(name: str, documentation: str, values: Iterable[tuple[int, float]]) -> Metric:
    family = GaugeMetricFamily(name, documentation, labels=[_LABEL])
    for node_id, value in values:
        family.add_metric([str(node_id)], value)
    return family
