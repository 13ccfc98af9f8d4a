"""An outbox worker: it sends the events of a database table to Kafka, each at least once."""

import asyncio
from collections.abc import Awaitable, Callable

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

Outbox = list[tuple[str, bytes]]


async def send_outbox(outbox: Outbox, bootstrap_servers: str, topic: str) -> None:
    """Send all events of an outbox, and remove each one when Kafka has it."""
    async with AIOKafkaProducer(
        bootstrap_servers=bootstrap_servers, client_id="outbox", enable_idempotence=True
    ) as producer:
        while outbox:
            key, event = outbox[0]
            await producer.send_and_wait(topic, event, key=key.encode())
            outbox.pop(0)


async def handle_events(
    handle: Callable[[bytes], Awaitable[None]], bootstrap_servers: str, topic: str
) -> None:
    """Handle the events of a topic until cancelled; an offset is committed after its event."""
    async with AIOKafkaConsumer(
        topic,
        bootstrap_servers=bootstrap_servers,
        group_id="outbox-handlers",
        client_id="handler",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        async for record in consumer:
            await handle(record.value)
            await consumer.commit()
            await asyncio.sleep(0)
