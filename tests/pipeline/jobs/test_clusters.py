"""The logs of a cluster, which is our own server, are copied to bronze.

Rules: [pipeline/input-identity], [pipeline/log-ends].
"""

from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark", reason="needs pip install coterie[pipeline]")

from coterie.client.cluster import Cluster
from coterie.client.errors import ClientError
from coterie.client.security import Security
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


def test_new_records_are_copied_once(server: BrokerProcess, tmp_path: Path) -> None:
    output = str(tmp_path / "out")
    source = f"kafka://{server.bootstrap}"
    with Cluster(server.bootstrap) as cluster:
        assert not create_topic(cluster, "paid", 3, 1).error
        commit(cluster, 3)
        (copied,) = copy_clusters([source], output)
        first = copied.rows
        store = Store.reading(output)
        assert first == store.rows("log_records") + store.rows("journal_records") > 0
        assert store.rows("log_ends") == 2 * 3
        assert copied.size_bytes > 0
        assert copy_clusters([source, source], output) == []
        commit(cluster, 2, 3)
    (copied,) = copy_clusters([source], output)
    second = copied.rows
    assert second == 2 * 9 * 3
    store = Store.reading(output)
    # The manifest has an entry for the copy, as for any run.
    assert store.runs[-1]["tables"] == copied.tables
    assert copied.tables["log_ends"]["rows"] == 2 * 3
    assert store.rows("log_records") + store.rows("journal_records") == first + second
    (name,) = store.inputs
    assert store.about(name)["paths"] == [source]


def test_log_ends_of_a_stopped_group_are_still_requested(
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
    # No record of the group log is new, but the log end is.
    (copied,) = copy_clusters([source], output)
    assert (copied.rows, list(copied.tables)) == (0, ["log_ends"])
    with Store.open(output) as store:
        *before, newest = store.files("log_ends")
    ends = [row["log_end_offset"] for row in pq.read_table(newest).to_pylist()]
    assert (len(before), ends) == (1, [0, 0, 0, 0, 1, 0])
    assert copy_clusters([source], output) == []
    assert Store.reading(output).rows("log_ends") == 2 * 6


def test_options_are_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    secured = Security(mechanism="PLAIN")

    class OpenedError(Exception):
        pass

    def opened(source: str, *, crc: bool, security: Security) -> None:
        seen.append((source, crc, security))
        raise OpenedError

    monkeypatch.setattr(clusters, "KafkaLog", opened)
    for crc in (True, False):
        with pytest.raises(OpenedError):
            copy_clusters(["kafka://x:1"], str(tmp_path / "out"), crc=crc, security=secured)
    assert seen == [("kafka://x:1", True, secured), ("kafka://x:1", False, secured)]


def test_progress_is_reported_in_offsets(server: BrokerProcess, tmp_path: Path) -> None:
    source = f"kafka://{server.bootstrap}"
    with Cluster(server.bootstrap) as cluster:
        assert not create_topic(cluster, "paid", 3, 1).error
        commit(cluster, 2)
    steps: list[Copying] = []
    copied = sum(each.rows for each in copy_clusters([source], str(tmp_path / "out"), steps.append))
    assert [each.done for each in steps] == sorted(each.done for each in steps)
    assert {(each.source, each.total) for each in steps} == {(source, copied)}
    assert (steps[-1].done, steps[-1].rows) == (copied, copied)


def test_unreachable_cluster_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ClientError):
        copy_clusters(["kafka://127.0.0.1:1"], str(tmp_path / "out"))
