"""Compaction under real clients: what was acknowledged stays, what is old goes, and the directory
stays small; also when the server is killed in the middle of it.
"""

import threading
import time
from collections.abc import Callable
from pathlib import Path

import confluent_kafka
import pytest

from coterie.protocol.topic_names import OFFSETS_TOPIC
from tests.live import libraries
from tests.live.broker_process import BrokerProcess
from tests.live.conftest import create_topic
from tests.live.deadlines import eventually
from tests.live.group_log import GroupLog
from tests.live.groups import QUIET

MEBIBYTE = 1024 * 1024
PARTITIONS = 400
GROUPS = 3
# Some 2 MB a second altogether: a cleaner that has a quarter of the loop keeps up with that on
# a machine that does other things too.
COMMIT_PAUSE_S = 0.05
READ_LIMIT_S = 30.0
# Cleaned as often as possible, in the smallest segments that Kafka allows.
EAGER = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.segment.bytes": str(MEBIBYTE),
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.min.cleanable.ratio": "0.01",
}


class Committer:
    """Commits ever higher offsets of all partitions for one group, and knows what was
    acknowledged.
    """

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        self.group = group
        self.topic = topic
        self.acknowledged = 0
        self.asked = 0
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "enable.auto.commit": False,
                "log_level": QUIET,
                "socket.timeout.ms": 5000,
                "reconnect.backoff.max.ms": 200,
            }
        )
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.wait(COMMIT_PAUSE_S):
            self.asked += 1
            offsets = [
                confluent_kafka.TopicPartition(self.topic, partition, self.asked)
                for partition in range(PARTITIONS)
            ]
            try:
                answers = self._consumer.commit(offsets=offsets, asynchronous=False)
            except confluent_kafka.KafkaException:
                time.sleep(0.05)
                continue
            if all(answer.error is None for answer in answers):
                self.acknowledged = self.asked

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(READ_LIMIT_S)
        self._consumer.close()


def committed(bootstrap: str, group: str, topic: str) -> set[int]:
    """What the coordinator has for the partitions of a topic."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": group, "log_level": QUIET}
    )
    wanted = [confluent_kafka.TopicPartition(topic, number) for number in range(PARTITIONS)]
    try:
        return {each.offset for each in consumer.committed(wanted, timeout=READ_LIMIT_S)}
    finally:
        consumer.close()


def log_bytes(data_dir: Path, topic: str) -> int:
    """What the segments of a topic take up just now; files may go while we look."""
    total = 0
    for path in data_dir.glob(f"{topic}-*/*.log"):
        try:
            total += path.stat().st_size
        except FileNotFoundError:
            continue
    return total


def cleanings(server: BrokerProcess) -> int:
    return server.output.read_text(errors="replace").count("log cleaned")


@pytest.fixture
def committers() -> list[Committer]:
    return []


def test_commits_survive_compaction_and_kills_and_the_log_stays_small(
    start_broker: Callable[..., BrokerProcess],
    committers: list[Committer],
    request: pytest.FixtureRequest,
    name: str,
) -> None:
    server = start_broker(EAGER)
    # Short names, for they stand in every record.
    topic = name[-8:]
    create_topic(server.bootstrap, topic, PARTITIONS)
    for number in range(GROUPS):
        committers.append(Committer(server.bootstrap, f"{topic}-{number}", topic))
        request.addfinalizer(committers[-1].stop)
    for _ in range(2):
        seen = cleanings(server)
        eventually(lambda: cleanings(server) > seen + 2, "compactions")  # noqa: B023 - used at once
        server.kill()
        known = {each.group: each.acknowledged for each in committers}
        server.start()
        for each in committers:
            found = committed(server.bootstrap, each.group, topic)
            assert min(found) >= known[each.group] > 0, f"{each.group}: {known[each.group]} lost"
    eventually(lambda: cleanings(server) > 8, "compactions")
    for each in committers:
        each.stop()
    log = GroupLog(server.bootstrap, committers[0].group)
    _, start, end = log.place()
    assert start == 0
    # A record has some 80 bytes: what stays is a few segments, whatever was written.
    assert 80 * end > 8 * MEBIBYTE
    eventually(lambda: log_bytes(server.data_dir, OFFSETS_TOPIC) < 4 * MEBIBYTE, "the log is small")
    for each in committers:
        found = committed(server.bootstrap, each.group, topic)
        assert len(found) == 1
        assert each.acknowledged <= found.pop() <= each.asked
        # A consumer of the topic sees across the gaps what the coordinator has.
        newest = {
            record.partition: record.offset
            for record in GroupLog(server.bootstrap, each.group).offsets()
        }
        assert set(newest) == set(range(PARTITIONS))
        assert min(offset or 0 for offset in newest.values()) >= each.acknowledged
    assert server.stop() == 0


def produce(bootstrap: str, topic: str, rows: list[tuple[bytes, bytes | None]]) -> None:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 5, "log_level": QUIET}
    )
    failures: list[confluent_kafka.KafkaError] = []
    for key, value in rows:
        producer.produce(
            topic,
            key=key,
            value=value,
            partition=0,
            on_delivery=lambda error, _: failures.append(error) if error else None,
        )
        producer.poll(0)
    assert producer.flush(READ_LIMIT_S) == 0
    assert failures == []


def read_all(bootstrap: str, topic: str) -> list[tuple[bytes, bytes | None, int]]:
    """Key, value and offset of everything the partition holds."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"{topic}-reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "log_level": QUIET,
        }
    )
    found: list[tuple[bytes, bytes | None, int]] = []
    try:
        consumer.assign(
            [confluent_kafka.TopicPartition(topic, 0, confluent_kafka.OFFSET_BEGINNING)]
        )
        while True:
            message = consumer.poll(READ_LIMIT_S)
            assert message is not None
            if message.error() is not None:
                assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF
                return found
            found.append((message.key(), message.value(), message.offset()))
    finally:
        consumer.close()


def test_a_compacted_topic_keeps_the_newest_of_each_key_and_forgets_the_deleted(
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

    def settled() -> bool:
        # The first cleaning that meets a tombstone keeps it for delete.retention.ms; it goes with a
        # later one, which comes when there is something new to clean.
        produce(server.bootstrap, name, [(b"nudge", b"")])
        found = {key: value for key, value, _ in read_all(server.bootstrap, name)}
        found.pop(b"nudge", None)
        return found == living

    # The tombstones are in the active segment, which ends when max.compaction.lag.ms has passed.
    eventually(settled, "only the living keys are left")
    found = [each for each in read_all(server.bootstrap, name) if each[0] != b"nudge"]
    # Offsets are those that were given.
    assert [offset for _, _, offset in found] == list(range(5901, 6000, 2))
    read = library.reader(
        server.bootstrap, libraries.Reading(f"{name}-group", name, fixed_partitions=(0,))
    )
    try:
        assert set(living) <= {record.key for record in read.read(len(living) + 1)}
    finally:
        read.close()
    server.kill()
    server.start()
    again = [each for each in read_all(server.bootstrap, name) if each[0] != b"nudge"]
    assert again == found
