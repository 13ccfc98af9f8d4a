"""confluent-kafka (librdkafka) behind the interface `Library`."""

import time
from functools import partial
from typing import Any

import confluent_kafka

from tests.live.libraries.messages import (
    ORDINARY,
    READ_LIMIT_S,
    Message,
    Reader,
    Reading,
    Received,
    Sending,
)


class Confluent:
    """confluent-kafka: written in C, with the newest protocol versions of the three."""

    name = "confluent"

    def compressions(self) -> set[str]:
        # The published wheels contain all codecs.
        return {"none", "gzip", "snappy", "lz4", "zstd"}

    def produce(
        self, bootstrap: str, topic: str, messages: list[Message], sending: Sending = ORDINARY
    ) -> list[int | None]:
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": sending.acks,
                "compression.type": sending.compression,
                "enable.idempotence": sending.idempotent,
                "message.max.bytes": sending.max_request_bytes,
                "linger.ms": sending.linger_ms,
                "message.timeout.ms": int(READ_LIMIT_S * 1000),
                **sending.security,
            }
        )
        offsets: dict[int, int | None] = {}
        failures: list[confluent_kafka.KafkaError] = []

        def delivered(
            index: int,
            error: confluent_kafka.KafkaError | None,
            record: confluent_kafka.Message,
        ) -> None:
            if error is not None:
                failures.append(error)
            offsets[index] = record.offset()

        for index, message in enumerate(messages):
            optional: dict[str, Any] = {}
            if message.partition is not None:
                optional["partition"] = message.partition
            if message.timestamp_ms is not None:
                optional["timestamp"] = message.timestamp_ms
            producer.produce(
                topic,
                value=message.value,
                key=message.key,
                headers=list(message.headers),
                on_delivery=partial(delivered, index),
                **optional,
            )
        left = producer.flush(READ_LIMIT_S)
        if failures:
            raise confluent_kafka.KafkaException(failures[0])
        assert left == 0, f"there was no response for {left} messages"
        return [offsets[index] for index in range(len(messages))]

    def consume(self, bootstrap: str, topic: str, partitions: int, count: int) -> list[Received]:
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                # librdkafka requires a group id even if no group is joined.
                "group.id": f"{topic}-reader",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 100,
            }
        )
        try:
            # Offset 0 and not OFFSET_BEGINNING, for which librdkafka waits half a second.
            consumer.assign(
                [confluent_kafka.TopicPartition(topic, index, 0) for index in range(partitions)]
            )
            received: list[Received] = []
            deadline = time.monotonic() + READ_LIMIT_S
            while len(received) < count and time.monotonic() < deadline:
                records = consumer.consume(min(count - len(received), 500), timeout=0.2)
                received += map(as_received, records)
            return received
        finally:
            consumer.close()

    def reader(self, bootstrap: str, reading: Reading) -> Reader:
        return ConfluentReader(bootstrap, reading)


def as_received(record: confluent_kafka.Message) -> Received:
    """Return a Message in the terms of the tests; raise the error that it may carry."""
    error, partition, offset = record.error(), record.partition(), record.offset()
    if error is not None:
        raise confluent_kafka.KafkaException(error)
    assert partition is not None, "only an error has no partition"
    assert offset is not None, "only an error has no offset"
    key: Any = record.key()
    value: Any = record.value()
    headers: Any = record.headers() or ()
    return Received(partition, offset, key, value, tuple(headers), record.timestamp()[1])


class ConfluentReader(Reader):
    """A confluent_kafka.Consumer."""

    def __init__(self, bootstrap: str, reading: Reading) -> None:
        self._topic = reading.topic
        # librdkafka's value for "none" is "error".
        reset = "error" if reading.auto_offset_reset == "none" else reading.auto_offset_reset
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": reading.group,
                "auto.offset.reset": reset,
                "enable.auto.commit": reading.auto_commit_ms is not None,
                "auto.commit.interval.ms": reading.auto_commit_ms or 5000,
                "topic.metadata.refresh.interval.ms": reading.metadata_max_age_ms,
                "heartbeat.interval.ms": 300,
                "fetch.wait.max.ms": reading.fetch_max_wait_ms,
                **reading.security,
            }
        )
        if reading.fixed_partitions:
            self._consumer.assign([self._partition(each) for each in reading.fixed_partitions])
        else:
            self._consumer.subscribe([reading.pattern or reading.topic])

    def _partition(self, partition: int, *more: Any) -> confluent_kafka.TopicPartition:
        return confluent_kafka.TopicPartition(self._topic, partition, *more)

    def poll(self, at_most: int, seconds: float) -> list[Received]:
        return [as_received(record) for record in self._consumer.consume(at_most, seconds)]

    def commit(self, partition: int, offset: int, metadata: str = "") -> None:
        wanted = self._partition(partition, offset, metadata)
        (result,) = self._consumer.commit(offsets=[wanted], asynchronous=False)
        if result.error is not None:
            raise confluent_kafka.KafkaException(result.error)

    def committed(self, partition: int) -> tuple[int, str] | None:
        (found,) = self._consumer.committed([self._partition(partition)], timeout=READ_LIMIT_S)
        if found.error is not None:
            raise confluent_kafka.KafkaException(found.error)
        has_offset = found.offset != confluent_kafka.OFFSET_INVALID
        return (found.offset, found.metadata or "") if has_offset else None

    def seek(self, partition: int, offset: int) -> None:
        self._consumer.seek(self._partition(partition, offset))

    def position(self, partition: int) -> int:
        (found,) = self._consumer.position([self._partition(partition)])
        return found.offset

    def pause(self, partition: int) -> None:
        self._consumer.pause([self._partition(partition)])

    def resume(self, partition: int) -> None:
        self._consumer.resume([self._partition(partition)])

    def assigned(self) -> set[tuple[str, int]]:
        return {(each.topic, each.partition) for each in self._consumer.assignment()}

    def _close(self) -> None:
        self._consumer.close()
