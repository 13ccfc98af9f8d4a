"""Two hundred groups at the same time. Scenario S174, test_large_group_count."""

import asyncio
from collections.abc import Callable

import aiokafka
import confluent_kafka
import pytest
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from confluent_kafka.admin import AdminClient

from tests.live.broker_process import Broker
from tests.live.groups import ADMIN_LIMIT_S, GroupView, produce_rows

GROUPS = 200
ROWS = 10
PARTITIONS = 2
# The number of simultaneous joins; more would only compete for the processor.
AT_ONCE = 50


async def join_read_commit(
    bootstrap: str, group: str, topic: str, turn: asyncio.Semaphore
) -> aiokafka.AIOKafkaConsumer:
    """Join as the only member of a group, read every record once, commit, and stay in the group."""
    consumer = aiokafka.AIOKafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=60_000,
        partition_assignment_strategy=(RangePartitionAssignor,),
    )
    async with turn:
        await consumer.start()
        seen: list[tuple[int, int]] = []
        while len(seen) < ROWS:
            for records in (await consumer.getmany(timeout_ms=1000)).values():
                seen += [(record.partition, record.offset) for record in records]
        assert len(set(seen)) == len(seen) == ROWS
        await consumer.commit()
    return consumer


async def all_groups(bootstrap: str, names: list[str], topic: str) -> None:
    """Join all groups, and check that all of them are Stable at the same time."""
    turn = asyncio.Semaphore(AT_ONCE)
    joining = [join_read_commit(bootstrap, name, topic, turn) for name in names]
    consumers = await asyncio.gather(*joining)
    try:
        states = await asyncio.to_thread(listed_states, bootstrap, set(names))
        assert states == dict.fromkeys(names, "STABLE")
    finally:
        await asyncio.gather(*(consumer.stop() for consumer in consumers))


def listed_states(bootstrap: str, names: set[str]) -> dict[str, str]:
    """Return the states of those groups that the broker lists."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    listed = admin.list_consumer_groups().result(ADMIN_LIMIT_S)
    return {each.group_id: each.state.name for each in listed.valid if each.group_id in names}


# On a machine with much other work it took two minutes.
@pytest.mark.timeout(600)
def test_large_group_count(broker: Broker, make_topic: Callable[..., str]) -> None:
    """S174: two hundred groups read one topic at the same time.

    All are Stable at the same time; each reads every record once and commits. After the members
    have left all are Empty with their offsets, and all are deleted with one request.
    """
    topic = make_topic(partitions=PARTITIONS)
    produce_rows(broker.bootstrap, topic, PARTITIONS, ROWS)
    names = [f"{topic}-{number:03}" for number in range(GROUPS)]
    # The debug mode doubles the cost of two hundred clients; other tests have it for the library.
    asyncio.run(all_groups(broker.bootstrap, names, topic), debug=False)
    assert listed_states(broker.bootstrap, set(names)) == dict.fromkeys(names, "EMPTY")
    expected = {(topic, partition): ROWS // PARTITIONS for partition in range(PARTITIONS)}
    for name in (names[0], names[GROUPS // 2], names[-1]):
        assert GroupView(broker.bootstrap, name).offsets() == expected
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for result in admin.delete_consumer_groups(names).values():
        assert result.exception(ADMIN_LIMIT_S) is None
    assert listed_states(broker.bootstrap, set(names)) == {}


def test_same_client_id_in_many_groups(broker: Broker, make_topic: Callable[..., str]) -> None:
    """Groups are independent: ten groups have members with the same client id and topic."""
    topic = make_topic()
    produce_rows(broker.bootstrap, topic, 1, ROWS)
    consumers = []
    try:
        for number in range(10):
            consumer = confluent_kafka.Consumer(
                {
                    "bootstrap.servers": broker.bootstrap,
                    "client.id": "the-same",
                    "group.id": f"{topic}-{number}",
                    "auto.offset.reset": "earliest",
                    "enable.auto.commit": False,
                }
            )
            consumers.append(consumer)
            consumer.subscribe([topic])
        for consumer in consumers:
            records = consumer.consume(ROWS, timeout=30)
            assert [record.offset() for record in records] == list(range(ROWS))
            consumer.commit(asynchronous=False)
    finally:
        for consumer in consumers:
            consumer.close()
    for number in range(10):
        assert GroupView(broker.bootstrap, f"{topic}-{number}").offsets() == {(topic, 0): ROWS}
