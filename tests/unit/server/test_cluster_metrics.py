"""The metrics of several brokers [metrics/several-brokers]."""

import asyncio
from collections.abc import Iterator

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from coterie.server.metrics.cluster_metrics import collect_brokers
from coterie.server.metrics.endpoint import Snapshot
from coterie.server.metrics.metrics import collect
from coterie.testing import Broker, Cluster, cluster

LABEL = "broker"
# What only several brokers have.
MORE = {
    "coterie_broker_running",
    "kafka_server_leader_count",
    "kafka_server_under_replicated_partitions",
    "kafka_controller_offline_partitions_count",
}
SHARED = {
    "coterie_log_offsets",
    "kafka_log_size_bytes",
    "kafka_server_partition_count",
    "kafka_log_flushes_total",
    "process_cpu_seconds_total",
    "coterie_uptime_seconds",
    "kafka_controller_offline_partitions_count",
}

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


@pytest.fixture
def kafka() -> Iterator[Cluster]:
    """Three brokers; each leads a partition of a topic, and one of them a topic of its own."""
    with cluster() as running:
        running.topic("orders", replicas=[[1, 2], [2, 3], [3, 1]])
        running.topic("alone", replicas=[[2]])
        yield running


def scrape(kafka: Cluster) -> Samples:
    """Return what Prometheus reads; it refuses two families of one name."""
    metrics = kafka.thread.run(collect_brokers(kafka.server_cluster))
    families = list(text_string_to_metric_families(generate_latest(Snapshot(metrics)).decode()))
    assert len({each.name for each in families}) == len(families)
    samples = [each for family in families for each in family.samples]
    found = {(each.name, tuple(sorted(each.labels.items()))): each.value for each in samples}
    assert len(found) == len(samples)
    return found


def of(samples: Samples, name: str) -> dict[str, float]:
    """Return the samples of a metric by broker."""
    return {dict(labels)[LABEL]: value for (one, labels), value in samples.items() if one == name}


def test_each_broker_has_samples_and_what_they_share_is_there_once(kafka: Cluster) -> None:
    samples = scrape(kafka)
    assert of(samples, "kafka_server_connection_count") == {"1": 0, "2": 0, "3": 0}
    labelled = {name for name, labels in samples if LABEL in dict(labels)}
    assert not labelled & SHARED
    assert {name for name, _ in samples} >= SHARED
    assert samples["coterie_log_offsets", (("topic", "orders"),)] == 0
    partitions = of(samples, "kafka_coordinator_group_num_partitions")
    assert set(partitions) == {"1", "2", "3"}
    active = sum(
        value
        for (name, labels), value in samples.items()
        if name == "kafka_coordinator_group_num_partitions" and ("state", "active") in labels
    )
    # Each of the four partitions is active at one broker, and nowhere failed.
    assert active == 4
    assert not any(
        value
        for (name, labels), value in samples.items()
        if name == "kafka_coordinator_group_num_partitions" and ("state", "failed") in labels
    )


def test_broker_that_is_down_is_seen(kafka: Cluster) -> None:
    before = scrape(kafka)
    kafka.kill(2)
    samples = scrape(kafka)
    assert of(before, "coterie_broker_running") == {"1": 1, "2": 1, "3": 1}
    assert of(samples, "coterie_broker_running") == {"1": 1, "2": 0, "3": 1}
    assert "2" not in of(samples, "kafka_server_connection_count")
    led = of(samples, "kafka_server_leader_count")
    assert led["2"] == 0
    assert sum(led.values()) == sum(of(before, "kafka_server_leader_count").values()) - 1
    assert of(before, "kafka_server_under_replicated_partitions") == {"1": 0, "2": 0, "3": 0}
    lacking = of(samples, "kafka_server_under_replicated_partitions")
    assert lacking["1"] >= 1
    assert samples["kafka_controller_offline_partitions_count", ()] == 1


def test_without_a_broker_the_process_is_left(kafka: Cluster) -> None:
    for node_id in (1, 2, 3):
        kafka.kill(node_id)
    samples = scrape(kafka)
    assert of(samples, "coterie_broker_running") == {"1": 0, "2": 0, "3": 0}
    assert ("process_cpu_seconds_total", ()) in samples


def test_several_brokers_have_all_metrics_of_one(kafka: Cluster) -> None:
    with Broker() as single:
        one = single.thread.run(collect(single.server))
    several = kafka.thread.run(collect_brokers(kafka.server_cluster))
    assert {each.name for each in several} - MORE == {each.name for each in one}
    assert not any(LABEL in sample.labels for each in one for sample in each.samples)


def test_scrape_goes_on_while_brokers_end(kafka: Cluster) -> None:
    async def work() -> None:
        scraping = asyncio.create_task(collect_brokers(kafka.server_cluster))
        await asyncio.sleep(0)
        kafka.server_cluster.kill(3)
        assert await scraping

    kafka.thread.run(work())
