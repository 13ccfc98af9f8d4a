"""A cluster's logs copied once into bronze, from our own server."""

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="needs pip install coterie[pipeline]")

from coterie.client.cluster import Cluster
from coterie.client.errors import ClientError
from coterie.client.topics import create_topic
from coterie.pipeline.jobs.clusters import copy_clusters
from coterie.pipeline.store import Store
from tests.live.broker_process import FAST_GROUPS, BrokerProcess
from tests.pipeline.test_kafka_input import commit


@pytest.fixture
def server(tmp_path: Path) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path / "data", FAST_GROUPS | {"offsets.topic.num.partitions": "4"})
    process.start()
    yield process
    process.kill()


def test_what_is_new_is_copied_once(server: BrokerProcess, tmp_path: Path) -> None:
    output = str(tmp_path / "out")
    source = f"kafka://{server.bootstrap}"
    with Cluster(server.bootstrap) as cluster:
        assert not create_topic(cluster, "paid", 3, 1).error
        commit(cluster, 3)
        first = copy_clusters([source], output)
        store = Store.reading(output)
        assert first == store.rows("log_records") + store.rows("journal_records") > 0
        assert store.rows("log_ends") == 3
        assert copy_clusters([source, source], output) == 0
        commit(cluster, 2, 3)
    second = copy_clusters([source], output)
    assert second == 2 * 9 * 3
    store = Store.reading(output)
    assert store.rows("log_records") + store.rows("journal_records") == first + second
    (name,) = store.inputs
    assert store.about(name)["paths"] == [source]


def test_a_cluster_that_is_not_there_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(ClientError):
        copy_clusters(["kafka://127.0.0.1:1"], str(tmp_path / "out"))
