"""kafka-python behind the two calls of `Library`."""

import time
import warnings

with warnings.catch_warnings():
    # kafka-python 3.0 reads its schemas with importlib.resources.read_text, deprecated since
    # Python 3.11; pytest's warnings-are-errors would not let it be imported.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka
    import kafka.codec

from tests.live.libraries.messages import (
    ORDINARY,
    READ_LIMIT_S,
    Message,
    Reader,
    Reading,
    Received,
    Sending,
)


class KafkaPython:
    """kafka-python 3: synchronous on top, its own network loop beneath."""

    name = "kafka-python"

    def compressions(self) -> set[str]:
        present = {
            "gzip": kafka.codec.has_gzip(),
            "snappy": kafka.codec.has_snappy(),
            "lz4": kafka.codec.has_lz4(),
            "zstd": kafka.codec.has_zstd(),
        }
        return {"none"} | {codec for codec, installed in present.items() if installed}

    def produce(
        self, bootstrap: str, topic: str, messages: list[Message], sending: Sending = ORDINARY
    ) -> list[int | None]:
        producer = kafka.KafkaProducer(
            bootstrap_servers=bootstrap,
            acks=sending.acks if sending.acks == "all" else int(sending.acks),
            compression_type=None if sending.compression == "none" else sending.compression,
            enable_idempotence=sending.idempotent,
            max_request_size=sending.max_request_bytes,
            linger_ms=sending.linger_ms,
        )
        try:
            futures = [
                producer.send(
                    topic,
                    value=message.value,
                    key=message.key,
                    headers=list(message.headers),
                    partition=message.partition,
                    timestamp_ms=message.timestamp_ms,
                )
                for message in messages
            ]
            producer.flush(timeout=READ_LIMIT_S)
            return [future.get(timeout=READ_LIMIT_S).offset for future in futures]
        finally:
            producer.close(timeout=5)

    def consume(self, bootstrap: str, topic: str, partitions: int, count: int) -> list[Received]:
        consumer = kafka.KafkaConsumer(
            bootstrap_servers=bootstrap,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=100,
        )
        try:
            consumer.assign([kafka.TopicPartition(topic, index) for index in range(partitions)])
            received: list[Received] = []
            deadline = time.monotonic() + READ_LIMIT_S
            while len(received) < count and time.monotonic() < deadline:
                for records in consumer.poll(timeout_ms=200).values():
                    received += map(as_received, records)
            return received
        finally:
            consumer.close()

    def reader(self, bootstrap: str, reading: Reading) -> Reader:
        return KafkaPythonReader(bootstrap, reading)


def as_received(record: object) -> Received:
    """A ConsumerRecord in the words of the tests."""
    return Received(
        record.partition,
        record.offset,
        record.key,
        record.value,
        tuple(record.headers),
        record.timestamp,
    )


class KafkaPythonReader(Reader):
    """A KafkaConsumer."""

    def __init__(self, bootstrap: str, reading: Reading) -> None:
        self._topic = reading.topic
        self._consumer = kafka.KafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=reading.group,
            auto_offset_reset=reading.auto_offset_reset,
            enable_auto_commit=reading.auto_commit_ms is not None,
            auto_commit_interval_ms=reading.auto_commit_ms or 5000,
            metadata_max_age_ms=reading.metadata_max_age_ms,
            heartbeat_interval_ms=300,
            fetch_max_wait_ms=100,
        )
        if reading.fixed_partitions:
            self._consumer.assign([self._partition(each) for each in reading.fixed_partitions])
        else:
            topics = [reading.topic] if reading.pattern is None else ()
            self._consumer.subscribe(topics=topics, pattern=reading.pattern)
            # Fetches the metadata before the first join, which would else be made twice, and
            # might get stuck: see tests/live/member/kafka_python.py.
            self._consumer.topics()

    def _partition(self, partition: int) -> kafka.TopicPartition:
        return kafka.TopicPartition(self._topic, partition)

    def poll(self, at_most: int, seconds: float) -> list[Received]:
        batches = self._consumer.poll(timeout_ms=int(seconds * 1000), max_records=at_most)
        return [as_received(record) for records in batches.values() for record in records]

    def commit(self, partition: int, offset: int, metadata: str = "") -> None:
        self._consumer.commit(
            {self._partition(partition): kafka.OffsetAndMetadata(offset, metadata, -1)}
        )

    def committed(self, partition: int) -> tuple[int, str] | None:
        found = self._consumer.committed(self._partition(partition), metadata=True)
        return None if found is None else (found.offset, found.metadata)

    def seek(self, partition: int, offset: int) -> None:
        self._consumer.seek(self._partition(partition), offset)

    def position(self, partition: int) -> int:
        return self._consumer.position(self._partition(partition))

    def pause(self, partition: int) -> None:
        self._consumer.pause(self._partition(partition))

    def resume(self, partition: int) -> None:
        self._consumer.resume(self._partition(partition))

    def assigned(self) -> set[tuple[str, int]]:
        return {(each.topic, each.partition) for each in self._consumer.assignment()}

    def _close(self) -> None:
        self._consumer.close()
