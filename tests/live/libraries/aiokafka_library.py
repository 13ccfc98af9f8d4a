"""aiokafka behind the interface `Library`; each call runs an event loop of its own."""

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
    as_received,
    consumer_settings,
    installed_codecs,
    producer_settings,
    reader_settings,
    send_arguments,
)


class Aiokafka:
    """aiokafka: asynchronous, and without flexible versions of the protocol."""

    name = "aiokafka"

    def compressions(self) -> set[str]:
        return installed_codecs(aiokafka.codec)

    def produce(
        self, bootstrap: str, topic: str, messages: list[Message], sending: Sending = ORDINARY
    ) -> list[int | None]:
        return asyncio.run(self._produce(bootstrap, topic, messages, sending))

    async def _produce(
        self, bootstrap: str, topic: str, messages: list[Message], sending: Sending
    ) -> list[int | None]:
        producer = aiokafka.AIOKafkaProducer(**producer_settings(bootstrap, sending))
        try:
            await producer.start()
            futures = [
                await producer.send(topic, **send_arguments(message)) for message in messages
            ]
            results = await asyncio.wait_for(asyncio.gather(*futures), READ_LIMIT_S)
            return [None if result is None else result.offset for result in results]
        finally:
            await producer.stop()

    def consume(self, bootstrap: str, topic: str, partitions: int, count: int) -> list[Received]:
        return asyncio.run(self._consume(bootstrap, topic, partitions, count))

    async def _consume(
        self, bootstrap: str, topic: str, partitions: int, count: int
    ) -> list[Received]:
        consumer = aiokafka.AIOKafkaConsumer(**consumer_settings(bootstrap))
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


class AiokafkaReader(Reader):
    """An AIOKafkaConsumer on an event loop in a thread, so that its heartbeats continue."""

    def __init__(self, bootstrap: str, reading: Reading) -> None:
        self._topic = reading.topic
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._run(self._start(bootstrap, reading))

    def _run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(READ_LIMIT_S)

    async def _start(self, bootstrap: str, reading: Reading) -> None:
        self._consumer = aiokafka.AIOKafkaConsumer(**reader_settings(bootstrap, reading))
        await self._consumer.start()
        if reading.fixed_partitions:
            self._consumer.assign([self._partition(each) for each in reading.fixed_partitions])
        else:
            topics = [reading.topic] if reading.pattern is None else ()
            self._consumer.subscribe(topics=topics, pattern=reading.pattern)

    def _partition(self, partition: int) -> Any:
        return aiokafka.TopicPartition(self._topic, partition)

    async def _poll(self, at_most: int, timeout_ms: int) -> list[Received]:
        batches = await self._consumer.getmany(timeout_ms=timeout_ms, max_records=at_most)
        return [as_received(record) for records in batches.values() for record in records]

    def poll(self, at_most: int, seconds: float) -> list[Received]:
        received: list[Received] = self._run(self._poll(at_most, int(seconds * 1000)))
        return received

    def commit(self, partition: int, offset: int, metadata: str = "") -> None:
        self._run(self._consumer.commit({self._partition(partition): (offset, metadata)}))

    async def _committed(self, partition: int) -> tuple[int, str] | None:
        # The public method returns the offset only; the metadata is one layer below.
        wanted = self._partition(partition)
        found = await self._consumer._coordinator.fetch_committed_offsets([wanted])
        return (found[wanted].offset, found[wanted].metadata) if wanted in found else None

    def committed(self, partition: int) -> tuple[int, str] | None:
        committed: tuple[int, str] | None = self._run(self._committed(partition))
        return committed

    async def _call(self, method: Any, *arguments: object) -> Any:
        return method(*arguments)

    def seek(self, partition: int, offset: int) -> None:
        self._run(self._call(self._consumer.seek, self._partition(partition), offset))

    def position(self, partition: int) -> int:
        return int(self._run(self._consumer.position(self._partition(partition))))

    def pause(self, partition: int) -> None:
        self._run(self._call(self._consumer.pause, self._partition(partition)))

    def resume(self, partition: int) -> None:
        self._run(self._call(self._consumer.resume, self._partition(partition)))

    def assigned(self) -> set[tuple[str, int]]:
        owned = self._run(self._call(self._consumer.assignment))
        return {(each.topic, each.partition) for each in owned}

    def _close(self) -> None:
        self._run(self._consumer.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(READ_LIMIT_S)
        self._loop.close()
