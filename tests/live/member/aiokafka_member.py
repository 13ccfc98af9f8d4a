"""A member of aiokafka: rebalances happen in the background, whatever this program is doing."""

import argparse
import asyncio
import importlib

import aiokafka
from aiokafka.errors import KafkaError

from tests.live.member.events import (
    ASSIGNOR_CLASSES,
    BATCH,
    EXIT_FATAL,
    POLL_S,
    Events,
    Orders,
    Partition,
)


class Listener(aiokafka.ConsumerRebalanceListener):
    """Tells of every callback, and keeps the reading loop apart from the rebalances."""

    def __init__(self, events: Events) -> None:
        self._events = events
        # Held while a batch is handled, so that no partition is given away between the reading
        # of a record and its commit.
        self.handling = asyncio.Lock()
        self.has_assignment = False

    async def on_partitions_revoked(self, revoked):
        async with self.handling:
            self.has_assignment = False
            self._events.partitions("revoked", revoked)

    async def on_partitions_assigned(self, assigned):
        self._events.partitions("assigned", assigned)
        self.has_assignment = True


def run(options: argparse.Namespace, events: Events, orders: Orders) -> int:
    """Be a member until told to stop; returns the exit code."""
    return asyncio.run(member(options, events, orders))


async def member(options: argparse.Namespace, events: Events, orders: Orders) -> int:
    """The loop of the member."""
    consumer = open_consumer(options)
    listener = Listener(events)
    await consumer.start()
    consumer.subscribe(topics=options.topic, pattern=options.pattern, listener=listener)
    try:
        while not orders.stopped.is_set():
            topics = orders.subscription()
            if topics is not None:
                consumer.subscribe(topics=topics, listener=listener)
            batch = await consumer.getmany(timeout_ms=int(POLL_S * 1000))
            async with listener.handling:
                # A batch from before a rebalance is dropped: it comes again, to whom it belongs.
                if listener.has_assignment:
                    await handle(consumer, batch, options, events)
    except KafkaError as error:
        events.failed("error", error)
        return EXIT_FATAL
    finally:
        await consumer.stop()
    return 0


def open_consumer(options: argparse.Namespace) -> aiokafka.AIOKafkaConsumer:
    """The consumer; only new releases know group_instance_id."""
    static = {} if options.instance is None else {"group_instance_id": options.instance}
    return aiokafka.AIOKafkaConsumer(
        bootstrap_servers=options.bootstrap,
        client_id=options.client_id,
        group_id=options.group,
        session_timeout_ms=options.session_timeout_ms,
        heartbeat_interval_ms=options.heartbeat_interval_ms,
        max_poll_interval_ms=options.max_poll_interval_ms,
        max_poll_records=BATCH,
        metadata_max_age_ms=options.metadata_max_age_ms,
        partition_assignment_strategy=[assignor(options.assignor)],
        auto_offset_reset=options.auto_offset_reset,
        enable_auto_commit=False,
        fetch_max_wait_ms=100,
        **static,
    )


async def handle(
    consumer: aiokafka.AIOKafkaConsumer,
    batch: dict[aiokafka.TopicPartition, list[aiokafka.ConsumerRecord]],
    options: argparse.Namespace,
    events: Events,
) -> None:
    """Tell of every record of a batch and commit it."""
    dirty: dict[Partition, int] = {}
    for records in batch.values():
        for record in records:
            events.record(record.topic, record.partition, record.offset, record.value)
            dirty[record.topic, record.partition] = record.offset + 1
    coordinator = consumer._coordinator
    events.membership(coordinator.generation, coordinator.member_id, consumer.assignment())
    if dirty and options.commit == "each":
        try:
            await consumer.commit({aiokafka.TopicPartition(*each): dirty[each] for each in dirty})
            events.committed(dirty)
        except KafkaError as error:
            events.failed("commit-failed", error)


def assignor(name: str) -> type:
    """The assignor class of that protocol name; releases before 0.9 use kafka-python's."""
    try:
        from aiokafka.coordinator import assignors
    except ImportError:
        from kafka.coordinator import assignors
    module = importlib.import_module(f"{assignors.__name__}.{name}")
    return getattr(module, ASSIGNOR_CLASSES[name])
