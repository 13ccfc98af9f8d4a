"""A cluster's logs copied once into bronze, from our own server."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark", reason="needs pip install coterie[pipeline]")

from coterie.client.cluster import Cluster
from coterie.client.errors import ClientError
from coterie.client.topics import create_topic
from coterie.pipeline.jobs import clusters
from coterie.pipeline.jobs.clusters import copy_clusters
from coterie.pipeline.kafka_input import Copying
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
        (copied,) = copy_clusters([source], output)
        first = copied.rows
        store = Store.reading(output)
        assert first == store.rows("log_records") + store.rows("journal_records") > 0
        assert store.rows("log_ends") == 3
        assert copied.size_bytes > 0
        assert copy_clusters([source, source], output) == []
        commit(cluster, 2, 3)
    (copied,) = copy_clusters([source], output)
    second = copied.rows
    assert second == 2 * 9 * 3
    store = Store.reading(output)
    # What it wrote stands in the manifest, as that of any run.
    assert store.runs[-1]["tables"] == copied.tables
    assert copied.tables["log_ends"]["rows"] == 3
    assert store.rows("log_records") + store.rows("journal_records") == first + second
    (name,) = store.inputs
    assert store.about(name)["paths"] == [source]


def test_a_group_that_has_stopped_is_still_asked_about(
    server: BrokerProcess, tmp_path: Path
) -> None:
    from kafka import KafkaProducer

    output, source = str(tmp_path / "out"), f"kafka://{server.bootstrap}"
    with Cluster(server.bootstrap) as cluster:
        assert not create_topic(cluster, "paid", 3, 1).error
        commit(cluster, 1)
    assert [each.rows for each in copy_clusters([source], output)] == [9 * 3]
    producer = KafkaProducer(bootstrap_servers=server.bootstrap)
    producer.send("paid", b"unread", partition=1).get(timeout=30)
    producer.close()
    # No record of a group is new, and its lag is.
    (copied,) = copy_clusters([source], output)
    assert (copied.rows, list(copied.tables)) == (0, ["log_ends"])
    with Store.open(output) as store:
        *before, newest = store.files("log_ends")
    ends = [row["log_end_offset"] for row in pq.read_table(newest).to_pylist()]
    assert (len(before), ends) == (1, [0, 1, 0])
    assert copy_clusters([source], output) == []
    assert Store.reading(output).rows("log_ends") == 6


def test_checksums_are_checked_unless_not_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    class GoneError(Exception):
        pass

    def opened(source: str, *, crc: bool) -> None:
        seen.append((source, crc))
        raise GoneError

    monkeypatch.setattr(clusters, "KafkaLog", opened)
    for wanted in (True, False):
        with pytest.raises(GoneError):
            copy_clusters(["kafka://x:1"], str(tmp_path / "out"), crc=wanted)
    assert seen == [("kafka://x:1", True), ("kafka://x:1", False)]


def test_progress_is_told_in_offsets(server: BrokerProcess, tmp_path: Path) -> None:
    source = f"kafka://{server.bootstrap}"
    with Cluster(server.bootstrap) as cluster:
        assert not create_topic(cluster, "paid", 3, 1).error
        commit(cluster, 2)
    told: list[Copying] = []
    copied = sum(each.rows for each in copy_clusters([source], str(tmp_path / "out"), told.append))
    assert [each.done for each in told] == sorted(each.done for each in told)
    assert {(each.source, each.total) for each in told} == {(source, copied)}
    assert (told[-1].done, told[-1].rows) == (copied, copied)


def test_a_cluster_that_is_not_there_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(ClientError):
        copy_clusters(["kafka://127.0.0.1:1"], str(tmp_path / "out"))
