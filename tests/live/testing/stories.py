"""Stories of a group of aiokafka consumers, told in real and in virtual time.

Where a story waits for the end of a session, the session is short, because in real time it takes as
long. It is long elsewhere: on a busy machine a member with a short one might lose it. A story ends
with its group at rest; its history is compared.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from aiokafka import AIOKafkaConsumer

from coterie.testing import AnswerError, Broker, CloseBefore, Group, VirtualClock

TOPIC = "t"
PARTITIONS = 4
_SHORT_SESSION_MS = 3_000
_CONFIG: dict[str, Any] = {
    "session_timeout_ms": 60_000,
    "heartbeat_interval_ms": 100,
    "retry_backoff_ms": 50,
}

Story = Callable[[Broker, Group], Awaitable[None]]


@asynccontextmanager
async def member(kafka: Broker, name: str, **more: Any) -> AsyncIterator[AIOKafkaConsumer]:
    """A member that polls; it leaves at the end of the block."""
    config = kafka.client_config("aiokafka", group_id="g", client_id=name, **_CONFIG)
    consumer = AIOKafkaConsumer(TOPIC, **{**config, **more})
    await consumer.start()
    polling = asyncio.create_task(_poll(consumer))
    try:
        yield consumer
    finally:
        polling.cancel()
        await consumer.stop()


async def _poll(consumer: AIOKafkaConsumer) -> None:
    while True:
        await consumer.getmany(timeout_ms=100)


async def one_joins_and_leaves(kafka: Broker, group: Group) -> None:
    async with member(kafka, "one"):
        await group.wait_assigned(TOPIC)


async def second_joins(kafka: Broker, group: Group) -> None:
    async with member(kafka, "one"):
        await group.wait_assigned(TOPIC)
        async with member(kafka, "two"):
            await group.wait_stable(members=2)


async def second_leaves(kafka: Broker, group: Group) -> None:
    async with member(kafka, "one"):
        async with member(kafka, "two"):
            await group.wait_stable(members=2)
        await group.wait_stable(members=1)


async def session_expires(kafka: Broker, group: Group) -> None:
    async with member(kafka, "one", session_timeout_ms=_SHORT_SESSION_MS) as consumer:
        await group.wait_assigned(TOPIC)
        with (
            kafka.fault(CloseBefore(), client_id="one"),
        ):
            await group.wait_empty()
        assert consumer is not None
        await group.wait_stable(members=1)


async def poll_interval_is_exceeded(kafka: Broker, group: Group) -> None:
    config = kafka.client_config("aiokafka", group_id="g", client_id="slow", **_CONFIG)
    async with AIOKafkaConsumer(TOPIC, **config, max_poll_interval_ms=500):
        await group.wait_stable(members=1)
        await group.wait_empty()


async def member_is_expelled(kafka: Broker, group: Group) -> None:
    async with member(kafka, "one"):
        await group.wait_assigned(TOPIC)
        await group.expel("one")
        await group.wait_assigned(TOPIC)


async def rebalance_is_forced(kafka: Broker, group: Group) -> None:
    async with member(kafka, "one"):
        await group.wait_assigned(TOPIC)
        generation = group.generation
        group.rebalance()
        await group.wait_rebalanced(generation)


async def static_member_restarts(kafka: Broker, group: Group) -> None:
    async with member(kafka, "one", group_instance_id="i"):
        await group.wait_assigned(TOPIC)
    async with member(kafka, "one", group_instance_id="i"):
        await asyncio.sleep(0.3)
        await group.wait_stable(members=1)
    await group.expel("i")


async def coordinator_loads(kafka: Broker, group: Group) -> None:
    loading = AnswerError("COORDINATOR_LOAD_IN_PROGRESS")
    with kafka.fault(loading, api="JoinGroup", times=3) as fault:
        async with member(kafka, "one"):
            await group.wait_assigned(TOPIC)
            fault.must_have_hit(3)


async def member_id_is_unknown(kafka: Broker, group: Group) -> None:
    async with member(kafka, "one", session_timeout_ms=_SHORT_SESSION_MS):
        await group.wait_assigned(TOPIC)
        generation = group.generation
        unknown = AnswerError("UNKNOWN_MEMBER_ID")
        with kafka.fault(unknown, api="Heartbeat", times=1):
            await group.wait_rebalanced(generation)
        # The old id is there until its session ends.
        await group.wait_stable(members=1)


async def broker_restarts(kafka: Broker, group: Group) -> None:
    async with member(kafka, "one"):
        await group.wait_assigned(TOPIC)
        await kafka.restart()
        await asyncio.sleep(0.5)
        await group.wait_stable(members=1)


async def broker_is_killed(kafka: Broker, group: Group) -> None:
    async with member(kafka, "one"):
        await group.wait_assigned(TOPIC)
        await asyncio.sleep(0.2)
        await kafka.kill()
        await asyncio.sleep(0.5)
        await group.wait_stable(members=1)


STORIES: tuple[Story, ...] = (
    one_joins_and_leaves,
    second_joins,
    second_leaves,
    session_expires,
    poll_interval_is_exceeded,
    member_is_expelled,
    rebalance_is_forced,
    static_member_restarts,
    coordinator_loads,
    member_id_is_unknown,
    broker_restarts,
    broker_is_killed,
)


def in_virtual_time(
    story: Callable[[Broker, VirtualClock], Coroutine[Any, Any, None]], **options: Any
) -> None:
    """Tell a story to a broker in virtual time, with a topic of two partitions."""

    async def run() -> None:
        async with Broker(topics={TOPIC: 2}, **options) as kafka, kafka.virtual_time() as clock:
            await story(kafka, clock)

    asyncio.run(run())


async def told(story: Story, *, virtually: bool) -> list[tuple[Any, ...]]:
    """Return the history of a story: what its rebalances were, without their times."""
    async with Broker(topics={TOPIC: PARTITIONS}) as kafka:
        group = kafka.group("g")
        if virtually:
            async with kafka.virtual_time():
                await story(kafka, group)
                await group.wait_empty()
        else:
            await story(kafka, group)
            await group.wait_empty()
        return [
            (
                each.trigger.cause,
                each.trigger.client_id,
                each.trigger.reason,
                each.to_generation,
                each.members,
                each.partitions,
            )
            for each in group.history
        ]
