"""Administration with aiokafka's AIOKafkaAdminClient, which uses the oldest versions of the APIs.

It can't delete groups, alter their offsets or list the offsets of partitions; for the latter two
the tests use its consumer (commit, offsets_for_times).
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import aiokafka
import pytest
from aiokafka import errors
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from tests.live import libraries
from tests.live.broker_process import Broker
from tests.live.deadlines import GENEROUS_S
from tests.live.libraries import Message

BASE_MS = 1_600_000_000_000


@asynccontextmanager
async def admin_of(broker: Broker) -> AsyncIterator[AIOKafkaAdminClient]:
    """Start an admin client, and close it afterwards."""
    admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
    await admin.start()
    try:
        yield admin
    finally:
        await admin.close()


async def until(condition: Callable[[], Coroutine[Any, Any, object]], what: str) -> None:
    """Wait for a condition that is a coroutine, as `deadlines.eventually` does for others."""
    async with asyncio.timeout(GENEROUS_S):
        while not await condition():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.05)


def test_topics(broker: Broker, name: str) -> None:
    """Create, list, describe, add partitions, delete; a second creation is refused."""

    async def run() -> None:
        async with admin_of(broker) as admin:
            new_topics = [NewTopic(name, 3, 1)]
            created = await admin.create_topics(new_topics)
            assert [code for _, code, _ in created.topic_errors] == [errors.NoError.errno]
            again = await admin.create_topics(new_topics)
            assert [code for _, code, _ in again.topic_errors] == [
                errors.TopicAlreadyExistsError.errno
            ]

            async def partitions() -> list[int]:
                (topic,) = await admin.describe_topics([name])
                return sorted(each["partition"] for each in topic["partitions"])

            await until(lambda: equals(partitions, [0, 1, 2]), "three partitions")
            assert name in await admin.list_topics()
            await admin.create_partitions({name: NewPartitions(5)})
            await until(lambda: equals(partitions, [0, 1, 2, 3, 4]), "five partitions")
            with pytest.raises(errors.InvalidPartitionsError):
                await admin.create_partitions({name: NewPartitions(2)})
            await admin.delete_topics([name])

            async def is_deleted() -> bool:
                return name not in await admin.list_topics()

            await until(is_deleted, "deleted")

    asyncio.run(run())


async def equals(value: Callable[[], Coroutine[Any, Any, object]], expected: object) -> bool:
    """Return whether a coroutine returns the expected value."""
    return await value() == expected


def test_configs(broker: Broker, make_topic: Callable[..., str]) -> None:
    """AlterConfigs sets the named settings and resets all others."""
    topic = make_topic(config={"retention.ms": "111000"})

    async def run() -> None:
        async with admin_of(broker) as admin:

            async def shown() -> dict[str, str]:
                resource = ConfigResource(ConfigResourceType.TOPIC, topic)
                (response,) = await admin.describe_configs([resource])
                ((code, _message, _type, name, entries),) = response.resources
                assert (code, name) == (0, topic)
                return {entry[0]: entry[1] for entry in entries}

            before = await shown()
            assert before["retention.ms"] == "111000"
            change = ConfigResource(ConfigResourceType.TOPIC, topic, {"max.message.bytes": "5000"})
            (altered,) = await admin.alter_configs([change])
            assert [each[0] for each in altered.resources] == [0]

            async def replaced() -> bool:
                now = await shown()
                return now["max.message.bytes"] == "5000" and now["retention.ms"] != "111000"

            await until(replaced, "one set, the other reset")

    asyncio.run(run())


def test_living_group(broker: Broker, living_group: tuple[str, libraries.Reader]) -> None:
    """A group is listed and described with its offsets."""
    name, _member = living_group

    async def run() -> None:
        async with admin_of(broker) as admin:
            assert (name, "consumer") in await admin.list_consumer_groups()
            (response,) = await admin.describe_consumer_groups([name])
            ((code, group, state, protocol_type, protocol, members),) = [
                each[:6] for each in response.groups
            ]
            assert (code, group, state) == (0, name, "Stable")
            assert (protocol_type, protocol, len(members)) == ("consumer", "range", 1)
            offsets = await admin.list_consumer_group_offsets(name)
            assert {each.partition: found.offset for each, found in offsets.items()} == {
                0: 10,
                1: 10,
            }
            assert await admin.find_coordinator(name) >= 0

    asyncio.run(run())


def test_offsets_of_an_empty_group_are_altered_by_a_commit(
    broker: Broker, living_group: tuple[str, libraries.Reader]
) -> None:
    """A consumer with fixed partitions changes the offsets of a group that is Empty."""
    name, member = living_group
    member.close()

    async def run() -> None:
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=broker.bootstrap, group_id=name, enable_auto_commit=False
        )
        await consumer.start()
        try:
            partition = aiokafka.TopicPartition(name, 1)
            consumer.assign([partition])
            await consumer.commit({partition: (4, "altered")})
        finally:
            await consumer.stop()
        async with admin_of(broker) as admin:
            offsets = await admin.list_consumer_group_offsets(name)
            assert {each.partition: found.offset for each, found in offsets.items()} == {
                0: 10,
                1: 4,
            }
            assert offsets[partition].metadata == "altered"

    asyncio.run(run())


def test_offsets_by_time_and_deleted_records(
    broker: Broker, make_topic: Callable[..., str]
) -> None:
    """Earliest, latest and by time, before and after the first two records are deleted."""
    topic = make_topic()
    library = libraries.BY_NAME["aiokafka"]
    for step_ms in (0, 1000, 2000, 3000):
        message = Message(b"x", timestamp_ms=BASE_MS + step_ms, partition=0)
        library.produce(broker.bootstrap, topic, [message])

    async def run() -> None:
        partition = aiokafka.TopicPartition(topic, 0)
        consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=broker.bootstrap)
        await consumer.start()
        try:
            assert await consumer.beginning_offsets([partition]) == {partition: 0}
            assert await consumer.end_offsets([partition]) == {partition: 4}
            found = await consumer.offsets_for_times({partition: BASE_MS + 1500})
            assert (found[partition].offset, found[partition].timestamp) == (2, BASE_MS + 2000)
            found = await consumer.offsets_for_times({partition: BASE_MS + 5000})
            assert found == {partition: None}
            async with admin_of(broker) as admin:
                low = await admin.delete_records({partition: RecordsToDelete(before_offset=2)})
                assert low == {partition: 2}
            assert await consumer.beginning_offsets([partition]) == {partition: 2}
        finally:
            await consumer.stop()

    asyncio.run(run())


def test_cluster(broker: Broker) -> None:
    """The cluster is one node at the bootstrap address."""

    async def run() -> None:
        async with admin_of(broker) as admin:
            cluster = await admin.describe_cluster()
            (node,) = cluster["brokers"]
            assert f"{node['host']}:{node['port']}" == broker.bootstrap
            assert cluster["controller_id"] == node["node_id"]

    asyncio.run(run())
