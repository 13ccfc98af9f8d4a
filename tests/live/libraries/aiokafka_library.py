"""aiokafka behind the two calls of `Library`; each call runs a loop of its own."""

import asyncio
import threading
import time
from collections.abc import Coroutine
from typing import Any

import aiokafka
import aiokafka.codec

from tests.live.libraries.messages import (
    ORDINARY,
    READ_LIMIT_S,
    Message,
    Reader,
    Reading,
    Received,
    Sending,
)


class Aiokafka:
    """aiokafka: asyncio all the way; speaks no flexible version at all."""

    name = "aiokafka"

    def compressions(self) -> set[str]:
        present = {
            "gzip": aiokafka.codec.has_gzip(),
            "snappy": aiokafka.codec.has_snappy(),
            "lz4": aiokafka.codec.has_lz4(),
            "zstd": aiokafka.codec.has_zstd(),
        }
        return {"none"} | {codec for codec, installed in present.items() if installed}

    def produce(
        self, bootstrap: str, topic: str, messages: list[Message], sending: Sending = ORDINARY
    ) -> list[int | None]:
        return asyncio.run(self._produce(bootstrap, topic, messages, sending))

    async def _produce(
        self, bootstrap: str, topic: str, messages: list[Message], sending: Sending
    ) -> list[int | None]:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            acks=sending.acks if sending.acks == "all" else int(sending.acks),
            compression_type=None if sending.compression == "none" else sending.compression,
            enable_idempotence=sending.idempotent,
            max_request_size=sending.max_request_bytes,
            linger_ms=sending.linger_ms,
        )
        await producer.start()
        try:
            futures = [
                await producer.send(
                    topic,
                    value=message.value,
                    key=message.key,
                    headers=list(message.headers),
                    partition=message.partition,
                    timestamp_ms=message.timestamp_ms,
                )
                for message in messages
            ]
            answers = await asyncio.wait_for(asyncio.gather(*futures), READ_LIMIT_S)
            return [None if answer is None else answer.offset for answer in answers]
        finally:
            await producer.stop()

    def consume(self, bootstrap: str, topic: str, partitions: int, count: int) -> list[Received]:
        return asyncio.run(self._consume(bootstrap, topic, partitions, count))

    async def _consume(
        self, bootstrap: str, topic: str, partitions: int, count: int
    ) -> list[Received]:
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=bootstrap,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=100,
        )
        await consumer.start()
        try:
            consumer.assign([aiokafka.TopicPartition(topic, index) for index in range(partitions)])
            received: list[Received] = []
            deadline = time.monotonic() + READ_LIMIT_S
            while len(received) < count and time.monotonic() < deadline:
                for records in (await consumer.getmany(timeout_ms=200)).values():
                    received += map(as_received, records)
            return received
        finally:
            await consumer.stop()

    def reader(self, bootstrap: str, reading: Reading) -> Reader:
        return AiokafkaReader(bootstrap, reading)


def as_received(record: aiokafka.ConsumerRecord) -> Received:
    """A ConsumerRecord in the words of the tests."""
    return Received(
        record.partition,
        record.offset,
        record.key,
        record.value,
        tuple(record.headers),
        record.timestamp,
    )


class AiokafkaReader(Reader):
    """An AIOKafkaConsumer on a loop of its own, in a thread, so that its heartbeats go on."""

    def __init__(self, bootstrap: str, reading: Reading) -> None:
        self._topic = reading.topic
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._do(self._start(bootstrap, reading))

    def _do(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(READ_LIMIT_S)

    async def _start(self, bootstrap: str, reading: Reading) -> None:
        self._consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=reading.group,
            auto_offset_reset=reading.auto_offset_reset,
            enable_auto_commit=reading.auto_commit_ms is not None,
            auto_commit_interval_ms=reading.auto_commit_ms or 5000,
            metadata_max_age_ms=reading.metadata_max_age_ms,
            heartbeat_interval_ms=300,
            fetch_max_wait_ms=100,
        )
        await self._consumer.start()
        if reading.fixed_partitions:
            self._consumer.assign([self._partition(each) for each in reading.fixed_partitions])
        else:
            topics = [reading.topic] if reading.pattern is None else ()
            self._consumer.subscribe(topics=topics, pattern=reading.pattern)

    def _partition(self, partition: int) -> aiokafka.TopicPartition:
        return aiokafka.TopicPartition(self._topic, partition)

    async def _poll(self, at_most: int, timeout_ms: int) -> list[Received]:
        batches = await self._consumer.getmany(timeout_ms=timeout_ms, max_records=at_most)
        return [as_received(record) for records in batches.values() for record in records]

    def poll(self, at_most: int, seconds: float) -> list[Received]:
        return self._do(self._poll(at_most, int(seconds * 1000)))

    def commit(self, partition: int, offset: int, metadata: str = "") -> None:
        self._do(self._consumer.commit({self._partition(partition): (offset, metadata)}))

    async def _committed(self, partition: int) -> tuple[int, str] | None:
        # The public call gives the offset only; the metadata is one layer down.
        wanted = self._partition(partition)
        found = await self._consumer._coordinator.fetch_committed_offsets([wanted])
        return (found[wanted].offset, found[wanted].metadata) if wanted in found else None

    def committed(self, partition: int) -> tuple[int, str] | None:
        return self._do(self._committed(partition))

    async def _call(self, method: Any, *arguments: object) -> Any:
        return method(*arguments)

    def seek(self, partition: int, offset: int) -> None:
        self._do(self._call(self._consumer.seek, self._partition(partition), offset))

    def position(self, partition: int) -> int:
        return self._do(self._consumer.position(self._partition(partition)))

    def pause(self, partition: int) -> None:
        self._do(self._call(self._consumer.pause, self._partition(partition)))

    def resume(self, partition: int) -> None:
        self._do(self._call(self._consumer.resume, self._partition(partition)))

    def assigned(self) -> set[tuple[str, int]]:
        owned = self._do(self._call(self._consumer.assignment))
        return {(each.topic, each.partition) for each in owned}

    def _close(self) -> None:
        self._do(self._consumer.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(READ_LIMIT_S)
        self._loop.close()
