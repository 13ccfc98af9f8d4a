"""Producing and reading the records of one partition with librdkafka, and the size of its log."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import confluent_kafka

from demo.producer import QUIET_LOG_LEVEL

MEBIBYTE = 1024 * 1024
READ_LIMIT_S = 60.0


class StoredRow(NamedTuple):
    """A record that was read."""

    key: bytes | None
    value: bytes | None
    offset: int


def produce(bootstrap: str, topic: str, rows: Sequence[tuple[bytes | None, bytes | None]]) -> None:
    """Produce keys and values to partition 0."""
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 5, "log_level": QUIET_LOG_LEVEL}
    )
    failures: list[confluent_kafka.KafkaError] = []

    def delivered(error: confluent_kafka.KafkaError | None, _: confluent_kafka.Message) -> None:
        if error is not None:
            failures.append(error)

    for key, value in rows:
        producer.produce(topic, key=key, value=value, partition=0, on_delivery=delivered)
        producer.poll(0)
    assert producer.flush(READ_LIMIT_S) == 0
    assert failures == []


def read_partition(
    bootstrap: str, topic: str, partition: int = 0, end: int | None = None
) -> list[StoredRow]:
    """Return the records of a partition.

    Args:
        bootstrap: the address of the broker.
        topic: the topic.
        partition: the partition.
        end: the offset at which to stop; by default the end of the partition, which a producer
            may keep moving.
    """
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"{topic}-reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 100,
            "log_level": QUIET_LOG_LEVEL,
        }
    )
    found: list[StoredRow] = []
    try:
        # Offset 0 and not OFFSET_BEGINNING, for which librdkafka waits half a second. If the
        # records at the start were deleted, auto.offset.reset finds the first one.
        consumer.assign([confluent_kafka.TopicPartition(topic, partition, 0)])
        while True:
            message = consumer.poll(READ_LIMIT_S)
            assert message is not None, f"no record after {found[-1:]}"
            error = message.error()
            if error is not None:
                assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF, error
                return found
            key, value, offset = message.key(), message.value(), message.offset()
            assert key is None or isinstance(key, bytes), "the consumer does not decode keys"
            assert value is None or isinstance(value, bytes), "the consumer does not decode values"
            assert offset is not None, "only an error has no offset"
            if end is not None and offset >= end:
                return found
            found.append(StoredRow(key, value, offset))
            if end is not None and offset == end - 1:
                return found
    finally:
        consumer.close()


def offset_range(bootstrap: str, topic: str, partition: int = 0) -> tuple[int, int]:
    """Return the start and end offset of a partition."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": f"{topic}-reader"}
    )
    try:
        at = confluent_kafka.TopicPartition(topic, partition)
        start, end = consumer.get_watermark_offsets(at, timeout=READ_LIMIT_S)
        return start, end
    finally:
        consumer.close()


def log_bytes(data_dir: Path, topic: str) -> int:
    """Return the size of a topic's segments; the broker may delete some at the same time."""
    total = 0
    for path in data_dir.glob(f"{topic}-*/*.log"):
        try:
            total += path.stat().st_size
        except FileNotFoundError:
            continue
    return total
