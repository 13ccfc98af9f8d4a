"""A member with aiokafka, which rebalances in the background."""

import asyncio
from collections.abc import Iterable
from typing import Any

import aiokafka
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.errors import KafkaError

from coterie.lab.live.members.application import POLL_S, Application


class Listener(aiokafka.ConsumerRebalanceListener):  # type: ignore[misc]
    """Gives partitions up between two polls, as the Java client does."""

    def __init__(self, application: Application, consumer: Any) -> None:
        self._application = application
        self._consumer = consumer
        # Held while records are worked on.
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
        coordinator = self._consumer._coordinator  # noqa: SLF001 - there is no public way
        self._application.generation(coordinator.generation)
        self._application.assigned(assigned)
        self.owns = True


async def run(application: Application) -> None:
    """Read until the member is asked to stop."""
    options = application.options
    consumer = aiokafka.AIOKafkaConsumer(
        bootstrap_servers=options.bootstrap,
        group_id=options.group,
        client_id=options.client_id,
        group_instance_id=options.instance,
        session_timeout_ms=options.session_ms,
        metadata_max_age_ms=options.metadata_age_ms,
        heartbeat_interval_ms=options.heartbeat_ms,
        rebalance_timeout_ms=options.rebalance_ms,
        max_poll_interval_ms=options.rebalance_ms,
        partition_assignment_strategy=[RangePartitionAssignor],
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        fetch_max_wait_ms=100,
    )
    listener = Listener(application, consumer)
    await consumer.start()
    consumer.subscribe(topics=options.topics, listener=listener)
    while not application.stopping.is_set():
        batches = await consumer.getmany(timeout_ms=int(POLL_S * 1_000))
        async with listener.working:
            # A batch from before a rebalance belongs to the next owner.
            if not listener.owns:
                continue
            application.take(
                (each.topic, each.partition, records[0].offset, records[-1].offset)
                for each, records in batches.items()
            )
            await asyncio.sleep(application.work_s())
            if application.commit_is_due():
                await commit(consumer, application)
    application.ending()
    await commit(consumer, application)
    await consumer.stop()


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
        application.failed(error)


if __name__ == "__main__":
    asyncio.run(run(Application()))
