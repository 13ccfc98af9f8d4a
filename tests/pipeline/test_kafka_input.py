"""An input `kafka://` has the rows of the broker's files, and continues where it ended.

Rules: [pipeline/log-ends].
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer

from coterie.client.cluster import Cluster, TopicPartition
from coterie.client.errors import ClientError
from coterie.client.offsets import commit_offsets
from coterie.client.topics import create_topic
from coterie.pipeline.jobs.inputs import identity_of
from coterie.pipeline.kafka_input import KafkaLog, NoGroupLog, _decoded, is_kafka
from coterie.pipeline.lag import earlier_ends, log_ends
from coterie.pipeline.ranges import LogRange, read_range
from coterie.pipeline.segments import NoSuchLog, find_partitions
from coterie.pipeline.show import facts_of
from coterie.protocol.messages.journal_records import GroupEmptied
from coterie.protocol.record_batch_layout import CRC_AT
from coterie.protocol.records import encode_batch
from coterie.protocol.topic_names import JOURNAL_TOPIC, OFFSETS_TOPIC
from tests.live.broker_process import FAST_GROUPS, BrokerProcess
from tests.live.deadlines import eventually
from tests.pipeline.histories import NOW_MS, commit_key, commit_value

PATIENCE_S = 60.0
GROUPS = [f"group-{number}" for number in range(9)]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A server of our own, so that its files can be compared with its responses."""
    process = BrokerProcess(tmp_path / "data", FAST_GROUPS | {"offsets.topic.num.partitions": "4"})
    process.start()
    yield process
    process.kill()


@pytest.fixture
def cluster(server: BrokerProcess) -> Iterator[Cluster]:
    with Cluster(server.bootstrap) as cluster:
        assert not create_topic(cluster, "paid", 3, 1).error
        yield cluster


def commit(cluster: Cluster, rounds: int, first: int = 0) -> None:
    for number in range(first, first + rounds):
        for group in GROUPS:
            errors = commit_offsets(cluster, group, {("paid", each): number for each in range(3)})
            assert set(errors.values()) == {0}


def join_a_group(bootstrap: str) -> None:
    """Complete one generation of a group, which creates the journal, and commit its positions."""
    from kafka import KafkaConsumer

    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce("paid", b"espresso", partition=0)
    assert producer.flush(PATIENCE_S) == 0
    consumer = KafkaConsumer(
        "paid",
        bootstrap_servers=bootstrap,
        group_id="readers",
        client_id="reader-1",
        auto_offset_reset="earliest",
        # When it closes, kafka-python commits only the positions that it has found by then.
        enable_auto_commit=False,
    )
    # If kafka-python leads a group before it has metadata of the topic, it assigns nothing.
    assert "paid" in consumer.topics()
    # The record ends this poll. kafka-python joins again if a poll ends while it joins.
    assert consumer.poll(timeout_ms=int(PATIENCE_S * 1000))
    assert {each.partition: consumer.position(each) for each in consumer.assignment()} == {
        0: 1,
        1: 0,
        2: 0,
    }
    consumer.commit()
    consumer.close()


def wait_for_journal(data_dir: Path, group: str) -> None:
    """Wait until the journal says that the group has no members, which is the last of its facts."""

    def is_written() -> bool:
        try:
            facts = list(facts_of(str(data_dir), group))
        except NoSuchLog:
            return False
        return any(isinstance(each, GroupEmptied) for each in facts)

    eventually(is_written, f"the end of {group} in the journal")


class Copied:
    """Everything from given positions to the end, by table."""

    def __init__(self, log: KafkaLog, positions: dict[TopicPartition, int]) -> None:
        self.positions: dict[TopicPartition, int] = {}
        self.rows: dict[str, list[dict[str, Any]]] = {}
        for fetched in log.read_between(log.first_offsets() | positions, log.end_offsets()):
            self.positions[fetched.topic, fetched.partition] = fetched.next_offset
            for table, batch in fetched.tables(log.identity):
                self.rows.setdefault(table, []).extend(batch.to_pylist())


def rows_of(copied: Copied, table: str) -> list[dict[str, Any]]:
    return sorted(copied.rows.get(table, []), key=place)


def rows_of_files(data_dir: Path, topic: str, identity: str) -> list[dict[str, Any]]:
    found = []
    for number, path in find_partitions(str(data_dir), topic).items():
        for step in read_range(LogRange(path, number, 0), "raw"):
            found += [{"input": identity, **row} for row in step.rows.to_pylist()]
    return sorted(found, key=place)


def place(row: dict[str, Any]) -> tuple[int, int]:
    return row["log_partition"], row["log_offset"]


def test_rows_equal_those_of_the_files(server: BrokerProcess, cluster: Cluster) -> None:
    commit(cluster, 5)
    with KafkaLog("kafka://" + server.bootstrap) as log:
        # The same cluster, read from its files, is the same input.
        assert log.identity == identity_of(str(server.data_dir))
        first = Copied(log, {})
        commit(cluster, 5, first=5)
        second = Copied(log, first.positions)
        assert not Copied(log, first.positions | second.positions).rows
    expected = rows_of_files(server.data_dir, OFFSETS_TOPIC, log.identity)
    got = sorted(rows_of(first, "log_records") + rows_of(second, "log_records"), key=place)
    assert len(expected) >= 2 * 5 * len(GROUPS) * 3
    assert len(rows_of(first, "log_records")) >= 5 * len(GROUPS) * 3
    assert got == expected
    assert not rows_of(first, "quarantine")


def test_cluster_without_groups_is_an_error(server: BrokerProcess) -> None:
    with pytest.raises(NoGroupLog, match="The first consumer group creates it"):
        KafkaLog("kafka://" + server.bootstrap)


def test_journal_is_read(server: BrokerProcess, cluster: Cluster) -> None:
    commit(cluster, 1)
    with KafkaLog("kafka://" + server.bootstrap) as log:
        assert not log.look_for_topics()
        join_a_group(server.bootstrap)
        wait_for_journal(server.data_dir, "readers")
        assert log.look_for_topics()
        copied = Copied(log, {})
    got = rows_of(copied, "journal_records")
    assert got
    assert got == rows_of_files(server.data_dir, JOURNAL_TOPIC, log.identity)


def test_log_ends_of_existing_partitions_are_returned(cluster: Cluster) -> None:
    rows = log_ends("c", cluster, [("paid", 0), ("paid", 2), ("absent", 0)], at_ms=NOW_MS)
    found = [(row["topic"], row["partition"], row["log_end_offset"]) for row in rows.to_pylist()]
    assert found == [("paid", 0, 0), ("paid", 2, 0)] * 2


def test_earlier_log_ends_are_returned(server: BrokerProcess, cluster: Cluster) -> None:
    """[pipeline/log-ends]"""
    now_ms = int(time.time() * 1000)
    producer = Producer({"bootstrap.servers": server.bootstrap})
    for partition, minutes in ((1, 20), (1, 6), (1, 4), (1, 1), (2, 10)):
        at_ms = now_ms - 60_000 * minutes
        producer.produce("paid", b"value", partition=partition, timestamp=at_ms)
    assert producer.flush(10) == 0
    wanted = [("paid", 0), ("paid", 1), ("paid", 2)]
    rows = log_ends("c", cluster, wanted, at_ms=now_ms)
    ends = pa.Table.from_batches([rows]).group_by("at_ts").aggregate([("log_end_offset", "list")])
    assert ends.column("log_end_offset_list").to_pylist() == [[0, 2, 1], [0, 4, 1]]
    (later,) = log_ends("c", cluster, [("paid", 1)], now_ms, with_earlier=False).to_pylist()
    assert later["log_end_offset"] == 4


def test_earlier_log_end_is_never_behind_the_present_one() -> None:
    """A record that was written between the two requests is in neither."""
    ends = {("t", 0): 5, ("t", 1): 5, ("t", 2): 5}
    since = {("t", 0): 3, ("t", 1): 6, ("t", 2): -1}
    assert earlier_ends(ends, since) == {("t", 0): 3, ("t", 1): 5, ("t", 2): 5}


def batch(offset: int, count: int = 2) -> bytes:
    pairs = [(commit_key(partition=each), commit_value(offset=each)) for each in range(count)]
    return encode_batch(pairs, offset, NOW_MS)


def test_response_can_begin_before_and_end_within_a_batch() -> None:
    data = batch(10) + batch(12)
    fetched = _decoded("host:1", (OFFSETS_TOPIC, 7), 11, data + batch(14)[:-9])
    assert fetched.rows.column("log_offset").to_pylist() == [11, 12, 13]
    assert fetched.rows.column("log_partition").to_pylist() == [7, 7, 7]
    assert (fetched.next_offset, fetched.size_bytes) == (14, len(data))
    assert not fetched.damaged.num_rows


def test_damaged_batch_goes_to_quarantine_and_is_skipped() -> None:
    damaged = bytearray(batch(12))
    damaged[-1] ^= 1
    fetched = _decoded("host:1", (OFFSETS_TOPIC, 7), 10, batch(10) + bytes(damaged) + batch(14))
    assert fetched.rows.column("log_offset").to_pylist() == [10, 11, 14, 15]
    assert fetched.damaged.column("reason").to_pylist() == ["crc"]
    assert fetched.next_offset == 16
    alone = _decoded("host:1", (OFFSETS_TOPIC, 7), 12, bytes(damaged))
    assert (alone.next_offset, alone.rows.num_rows, alone.damaged.num_rows) == (14, 0, 1)


def test_checksums_are_not_checked_without_crc() -> None:
    damaged = bytearray(batch(12))
    damaged[CRC_AT] ^= 1
    checked = _decoded("host:1", (OFFSETS_TOPIC, 7), 12, bytes(damaged))
    assert checked.damaged.column("reason").to_pylist() == ["crc"]
    fetched = _decoded("host:1", (OFFSETS_TOPIC, 7), 12, bytes(damaged), crc=False)
    assert fetched.rows.column("log_offset").to_pylist() == [12, 13]
    assert not fetched.damaged.num_rows


def test_response_without_a_whole_batch_is_an_error() -> None:
    with pytest.raises(ClientError, match="no whole batch"):
        _decoded("host:1", (OFFSETS_TOPIC, 7), 12, batch(12)[:-1])


def test_inputs_with_the_scheme_are_clusters() -> None:
    assert is_kafka("kafka://localhost:9092")
    assert not is_kafka(os.fspath("/var/lib/kafka"))
    with pytest.raises(ClientError):
        KafkaLog("kafka://127.0.0.1:1", timeout_s=1)


def test_log_that_lost_its_end_is_refused(server: BrokerProcess, cluster: Cluster) -> None:
    """[pipeline/shorter-log]"""
    commit(cluster, 1)
    with KafkaLog("kafka://" + server.bootstrap) as log:
        ahead = dict.fromkeys(log.end_offsets(), 1_000_000)
        with pytest.raises(ClientError, match="truncated"):
            Copied(log, ahead)
        with pytest.raises(ClientError, match="truncated"):
            list(log.fetch(ahead))


def test_rows_of_tables_have_the_input() -> None:
    ((table, rows),) = _decoded("host:1", (OFFSETS_TOPIC, 7), 0, batch(0)).tables("cluster-1")
    assert table == "log_records"
    assert rows.column("input") == pa.array(["cluster-1"] * 2)
