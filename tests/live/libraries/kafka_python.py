"""kafka-python behind the interface `Library`."""

import time
import warnings
from typing import Any

with warnings.catch_warnings():
    # kafka-python 3.0 reads its schemas with importlib.resources.read_text, deprecated since
    # Python 3.11; with warnings as errors it could not be imported.
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
    as_received,
    consumer_settings,
    installed_codecs,
    producer_settings,
    reader_settings,
    send_arguments,
)

__all__ = ["KafkaPython", "kafka"]


class KafkaPython:
    """kafka-python 3: a synchronous interface over a network loop of its own."""

    name = "kafka-python"

    def compressions(self) -> set[str]:
        return installed_codecs(kafka.codec)

    def produce(
        self, bootstrap: str, topic: str, messages: list[Message], sending: Sending = ORDINARY
    ) -> list[int | None]:
        producer = kafka.KafkaProducer(**producer_settings(bootstrap, sending))
        try:
            futures = [producer.send(topic, **send_arguments(message)) for message in messages]
            producer.flush(timeout=READ_LIMIT_S)
            return [future.get(timeout=READ_LIMIT_S).offset for future in futures]
        finally:
            producer.close(timeout=5)

    def consume(self, bootstrap: str, topic: str, partitions: int, count: int) -> list[Received]:
        consumer = kafka.KafkaConsumer(**consumer_settings(bootstrap))
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


class KafkaPythonReader(Reader):
    """A KafkaConsumer."""

    def __init__(self, bootstrap: str, reading: Reading) -> None:
        self._topic = reading.topic
        self._consumer = kafka.KafkaConsumer(**reader_settings(bootstrap, reading))
        if reading.fixed_partitions:
            self._consumer.assign([self._partition(each) for each in reading.fixed_partitions])
        else:
            topics = [reading.topic] if reading.pattern is None else ()
            self._consumer.subscribe(topics=topics, pattern=reading.pattern)
            # Fetches the metadata before the first join, as coterie/processes/member explains.
            self._consumer.topics()

    def _partition(self, partition: int) -> Any:
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
        return int(self._consumer.position(self._partition(partition)))

    def pause(self, partition: int) -> None:
        self._consumer.pause(self._partition(partition))

    def resume(self, partition: int) -> None:
        self._consumer.resume(self._partition(partition))

    def assigned(self) -> set[tuple[str, int]]:
        return {(each.topic, each.partition) for each in self._consumer.assignment()}

    def _close(self) -> None:
        self._consumer.close()
