"""Compaction with real clients: acknowledged commits are kept, old records are removed, and the log
stays small, also if the broker is killed during compaction.
"""

import threading
import time
from collections.abc import Callable

import confluent_kafka
import pytest

from coterie.protocol.topic_names import OFFSETS_TOPIC
from demo.producer import QUIET_LOG_LEVEL
from tests.live import libraries
from tests.live.broker_process import BrokerProcess
from tests.live.conftest import create_topic
from tests.live.deadlines import eventually
from tests.live.group_log import GroupLog
from tests.live.records import (
    MEBIBYTE,
    READ_LIMIT_S,
    log_bytes,
    offset_range,
    produce,
    read_partition,
)

PARTITIONS = 400
GROUPS = 3
# About 2 MB a second in all. The cleaner gets a quarter of the event loop's time, and keeps up with
# that on a busy machine too.
COMMIT_PAUSE_S = 0.05
# The key of records that only cause another compaction.
NEW_RECORD = b"new"
# Compacted as often as possible, in the smallest segments that Kafka allows.
EAGER = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.segment.bytes": str(MEBIBYTE),
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.min.cleanable.ratio": "0.01",
}


class Committer:
    """Commits increasing offsets of all partitions of a topic for one group.

    Attributes:
        requested: the last offset that it tried to commit.
        acknowledged: the last offset that was committed.
    """

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        self.group = group
        self.topic = topic
        self.acknowledged = 0
        self.requested = 0
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "enable.auto.commit": False,
                "log_level": QUIET_LOG_LEVEL,
                "socket.timeout.ms": 5000,
                "reconnect.backoff.max.ms": 200,
            }
        )
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.wait(COMMIT_PAUSE_S):
            self.requested += 1
            offsets = [
                confluent_kafka.TopicPartition(self.topic, partition, self.requested)
                for partition in range(PARTITIONS)
            ]
            try:
                results = self._consumer.commit(offsets=offsets, asynchronous=False)
            except confluent_kafka.KafkaException:
                time.sleep(0.05)
                continue
            if all(each.error is None for each in results):
                self.acknowledged = self.requested

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(READ_LIMIT_S)
        self._consumer.close()


def committed(bootstrap: str, group: str, topic: str) -> set[int]:
    """Return the committed offsets of all partitions of a topic."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": group, "log_level": QUIET_LOG_LEVEL}
    )
    wanted = [confluent_kafka.TopicPartition(topic, number) for number in range(PARTITIONS)]
    try:
        return {each.offset for each in consumer.committed(wanted, timeout=READ_LIMIT_S)}
    finally:
        consumer.close()


def compactions(server: BrokerProcess) -> int:
    return server.output.read_text(errors="replace").count("log cleaned")


@pytest.fixture
def committers() -> list[Committer]:
    return []


def test_commits_survive_compaction_and_kills(
    start_broker: Callable[..., BrokerProcess],
    committers: list[Committer],
    request: pytest.FixtureRequest,
    name: str,
) -> None:
    server = start_broker(EAGER)
    # A short name, because it is in every record.
    topic = name[-8:]
    create_topic(server.bootstrap, topic, PARTITIONS)
    for number in range(GROUPS):
        committers.append(Committer(server.bootstrap, f"{topic}-{number}", topic))
        request.addfinalizer(committers[-1].stop)
    for _ in range(2):
        seen = compactions(server)
        eventually(lambda: compactions(server) > seen + 2, "compactions")  # noqa: B023 - called within the iteration
        server.kill()
        known = {each.group: each.acknowledged for each in committers}
        server.start()
        for each in committers:
            found = committed(server.bootstrap, each.group, topic)
            assert min(found) >= known[each.group] > 0, f"{each.group}: {known[each.group]} lost"
    eventually(lambda: compactions(server) > 8, "compactions")
    for each in committers:
        each.stop()
    start, end = offset_range(server.bootstrap, OFFSETS_TOPIC)
    assert start == 0
    # A record has about 80 bytes. However many were written, a few segments remain.
    assert 80 * end > 8 * MEBIBYTE
    eventually(lambda: log_bytes(server.data_dir, OFFSETS_TOPIC) < 4 * MEBIBYTE, "a small log")
    for each in committers:
        found = committed(server.bootstrap, each.group, topic)
        assert len(found) == 1
        assert each.acknowledged <= found.pop() <= each.requested
        # A consumer of the topic reads the same offsets, although compaction left gaps.
        newest = {
            record.partition: record.offset
            for record in GroupLog(server.bootstrap, each.group).offsets()
        }
        assert set(newest) == set(range(PARTITIONS))
        assert min(offset or 0 for offset in newest.values()) >= each.acknowledged
    assert server.stop() == 0


def test_compacted_topic_keeps_the_newest_record_of_each_key(
    start_broker: Callable[..., BrokerProcess], name: str, library: libraries.Library
) -> None:
    server = start_broker({"log.cleaner.backoff.ms": "100"})
    settings = {
        "cleanup.policy": "compact",
        "segment.bytes": str(MEBIBYTE),
        "min.cleanable.dirty.ratio": "0.01",
        "delete.retention.ms": "0",
        "max.compaction.lag.ms": "500",
    }
    create_topic(server.bootstrap, name, 1, settings)
    keys = [b"key-%03d" % number for number in range(100)]
    rows = [(key, b"%d" % turn + b"." * 400) for turn in range(60) for key in keys]
    produce(server.bootstrap, name, rows)
    produce(server.bootstrap, name, [(key, None) for key in keys[::2]])
    living = dict.fromkeys(keys[1::2], b"59" + b"." * 400)

    def is_compacted() -> bool:
        # The first compaction of a tombstone keeps it for delete.retention.ms. A later one removes
        # it, but there is none unless there are new records.
        produce(server.bootstrap, name, [(NEW_RECORD, b"")])
        found = {row.key: row.value for row in read_partition(server.bootstrap, name)}
        found.pop(NEW_RECORD, None)
        return found == living

    # The tombstones are in the active segment, which is closed after max.compaction.lag.ms.
    eventually(is_compacted, "only keys without a tombstone")
    found = [row for row in read_partition(server.bootstrap, name) if row.key != NEW_RECORD]
    # Compaction does not change offsets.
    assert [row.offset for row in found] == list(range(5901, 6000, 2))
    read = library.reader(
        server.bootstrap, libraries.Reading(f"{name}-group", name, fixed_partitions=(0,))
    )
    try:
        assert set(living) <= {record.key for record in read.read(len(living) + 1)}
    finally:
        read.close()
    server.kill()
    server.start()
    again = [row for row in read_partition(server.bootstrap, name) if row.key != NEW_RECORD]
    assert again == found


def test_a_kill_after_a_cleaning_destroys_nothing(
    start_broker: Callable[..., BrokerProcess], name: str
) -> None:
    """The start writes the write-ahead file into the segments, and leaves cleaned ones alone."""
    server = start_broker({"log.cleaner.backoff.ms": "20"})
    settings = {
        "cleanup.policy": "compact",
        "segment.ms": "200",
        "min.cleanable.dirty.ratio": "0.01",
        "min.compaction.lag.ms": "300",
    }
    partitions = range(3)
    create_topic(server.bootstrap, name, len(partitions), settings)
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": server.bootstrap, "linger.ms": 1, "log_level": QUIET_LOG_LEVEL}
    )
    written: dict[int, dict[bytes, bytes]] = {number: {} for number in partitions}

    def write(key: bytes, *numbers: int) -> None:
        value = b"%d" % time.monotonic_ns()
        for number in numbers:
            written[number][key] = value
            producer.produce(name, key=key, value=value, partition=number)
        assert producer.flush(READ_LIMIT_S) == 0

    seen = compactions(server)
    # Five seconds after its first record the write-ahead file would be settled.
    until_s = time.monotonic() + 2
    while time.monotonic() < until_s or compactions(server) == seen:
        # Turns with one log are not in the file: so it names a place behind others.
        write(b"alone", 0)
        for length in range(1, 15):
            write(b"k" * length, *partitions)
    server.kill()
    server.start()
    for partition in partitions:
        found = read_partition(server.bootstrap, name, partition)
        assert {row.key: row.value for row in found} == written[partition]
