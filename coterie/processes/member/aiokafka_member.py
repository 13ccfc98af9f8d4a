"""A member with aiokafka, which rebalances in the background."""

import asyncio
import importlib
from collections.abc import Iterable
from typing import Any

import aiokafka
from aiokafka.errors import KafkaError

from coterie.processes.member.application import ASSIGNOR_CLASSES, POLL_S, Application


class Listener(aiokafka.ConsumerRebalanceListener):  # type: ignore[misc]
    """Gives partitions up between two polls, as the Java client does."""

    def __init__(self, application: Application, consumer: Any) -> None:
        self._application = application
        self._consumer = consumer
        # Held while records are worked on, so that no partition is revoked between the reading of
        # a record and its commit.
        self.working = asyncio.Lock()
        self.owns = False

    async def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        """Commit what was read, and stop."""
        async with self.working:
            self.owns = False
            await commit(self._consumer, self._application)
            self._application.revoked(revoked)

    async def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        """Begin to read."""
        self._application.generation(coordinator_of(self._consumer).generation)
        self._application.assigned(assigned)
        self.owns = True


def run(application: Application) -> int:
    """Read until the member is asked to stop, and return the exit code."""
    return asyncio.run(member(application))


async def member(application: Application) -> int:
    """Run the loop of the member."""
    options = application.options
    consumer = aiokafka.AIOKafkaConsumer(
        **application.settings(assignor(options.assignor)),
        rebalance_timeout_ms=options.max_poll_interval_ms,
    )
    listener = Listener(application, consumer)
    await consumer.start()
    consumer.subscribe(topics=options.topic, listener=listener)
    try:
        while not application.stopping.is_set():
            topics = application.subscription()
            if topics is not None:
                consumer.subscribe(topics=topics, listener=listener)
            batches = await consumer.getmany(timeout_ms=int(POLL_S * 1_000))
            async with listener.working:
                # A batch from before a rebalance is dropped; the next owner reads it again.
                if listener.owns:
                    await work_on(batches, consumer, application)
        application.write("ending")
        await commit(consumer, application)
    except KafkaError as error:
        return application.fatal(error)
    finally:
        await consumer.stop()
    return 0


async def work_on(batches: Any, consumer: Any, application: Application) -> None:
    """Take the records of a poll, and commit them if it is time."""
    application.take(
        (each.topic, each.partition, each.offset) for batch in batches.values() for each in batch
    )
    coordinator = coordinator_of(consumer)
    application.membership(coordinator.generation, coordinator.member_id, consumer.assignment())
    await asyncio.sleep(application.work_s())
    if application.commit_is_due():
        await commit(consumer, application)


async def commit(consumer: Any, application: Application) -> None:
    """Commit what was read."""
    offsets = dict(application.positions)
    try:
        if offsets:
            await consumer.commit(
                {aiokafka.TopicPartition(*each): offset for each, offset in offsets.items()}
            )
        application.committed(offsets)
    except KafkaError as error:
        application.failed("commit-failed", error)


def coordinator_of(consumer: Any) -> Any:
    """Return what has the generation and the member id."""
    return consumer._coordinator  # noqa: SLF001 - there is no public way


def assignor(name: str) -> type:
    """Return the assignor class of a protocol name; releases before 0.9 use kafka-python's."""
    try:
        from aiokafka.coordinator import assignors
    except ImportError:
        from kafka.coordinator import assignors
    module = importlib.import_module(f"{assignors.__name__}.{name}")
    cls: type = getattr(module, ASSIGNOR_CLASSES[name])
    return cls
