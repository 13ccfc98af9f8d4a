"""A member with aiokafka, which rebalances in the background."""

import argparse
import asyncio
import importlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import aiokafka
from aiokafka.errors import KafkaError

from tests.live.member.events import (
    ASSIGNOR_CLASSES,
    EXIT_FATAL,
    POLL_S,
    Events,
    Orders,
    consumer_settings,
)


class Listener(aiokafka.ConsumerRebalanceListener):  # type: ignore[misc]
    """Reports the callbacks, and keeps rebalances apart from the handling of a batch."""

    def __init__(self, events: Events) -> None:
        self._events = events
        # Held while a batch is handled, so that no partition is revoked between the reading of a
        # record and its commit.
        self.handling = asyncio.Lock()
        self.has_assignment = False

    async def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        async with self.handling:
            self.has_assignment = False
            self._events.partitions("revoked", revoked)

    async def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        self._events.partitions("assigned", assigned)
        self.has_assignment = True


def run(options: argparse.Namespace, events: Events, orders: Orders) -> int:
    """Run a member until it is stopped, and return the exit code."""
    return asyncio.run(member(options, events, orders))


async def member(options: argparse.Namespace, events: Events, orders: Orders) -> int:
    """Run the loop of the member."""
    consumer = aiokafka.AIOKafkaConsumer(**consumer_settings(options, assignor(options.assignor)))
    listener = Listener(events)
    await consumer.start()
    consumer.subscribe(topics=options.topic, pattern=options.pattern, listener=listener)
    try:
        while not orders.stopped.is_set():
            topics = orders.subscription()
            if topics is not None:
                consumer.subscribe(topics=topics, listener=listener)
            batches = await consumer.getmany(timeout_ms=int(POLL_S * 1000))
            async with listener.handling:
                # A batch from before a rebalance is dropped; the next owner reads it again.
                if listener.has_assignment:
                    await handle(consumer, batches, options, events)
    except KafkaError as error:
        events.failed("error", error)
        return EXIT_FATAL
    finally:
        await consumer.stop()
    return 0


async def handle(
    consumer: aiokafka.AIOKafkaConsumer,
    batches: Mapping[Any, Sequence[Any]],
    options: argparse.Namespace,
    events: Events,
) -> None:
    """Report the records of a batch and commit it."""
    offsets = events.batch(batches.values())
    coordinator = consumer._coordinator
    events.membership(coordinator.generation, coordinator.member_id, consumer.assignment())
    if offsets and options.commit == "each":
        try:
            await consumer.commit(
                {aiokafka.TopicPartition(*each): offsets[each] for each in offsets}
            )
            events.committed(offsets)
        except KafkaError as error:
            events.failed("commit-failed", error)


def assignor(name: str) -> type:
    """Return the assignor class of a protocol name; releases before 0.9 use kafka-python's."""
    try:
        from aiokafka.coordinator import assignors
    except ImportError:
        from kafka.coordinator import assignors
    module = importlib.import_module(f"{assignors.__name__}.{name}")
    cls: type = getattr(module, ASSIGNOR_CLASSES[name])
    return cls
