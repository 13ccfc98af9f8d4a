"""Real clients of a cluster whose brokers are killed, stopped and led elsewhere."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import confluent_kafka
import kafka as kafka_python
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from coterie.testing import Cluster, WaitTimedOut, WrongUse, cluster
from tests.live.deadlines import eventually

ROUNDS = 4


def in_loop(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Run a test that is a coroutine."""

    @wraps(test)
    def run() -> None:
        asyncio.run(test())

    return run


def other(kafka: Cluster, node_id: int | None) -> int:
    return next(each for each in kafka.brokers if each != node_id)


@in_loop
async def test_aiokafka_commits_through_kills_and_moves() -> None:
    async with cluster(topics={"t": 3}) as kafka:
        config = kafka.client_config("aiokafka", group_id="g", enable_auto_commit=False)
        consumer = AIOKafkaConsumer("t", **config)
        await consumer.start()
        producer = AIOKafkaProducer(bootstrap_servers=kafka.bootstrap_servers, acks="all")
        await producer.start()
        try:
            generation = consumer._coordinator.generation
            for number in range(1, ROUNDS + 1):
                dead = kafka.coordinator_of("g")
                await kafka.kill(dead)
                where = TopicPartition("t", 0)
                await producer.send_and_wait("t", b"v", partition=0)
                await consumer.commit({where: number})
                assert await consumer.committed(where) == number
                assert dead is not None
                await kafka.start(dead)
                await kafka.move("t", 0, to=other(kafka, kafka.leader_of("t", 0)))
                await kafka.move_coordinator("g", to=other(kafka, kafka.coordinator_of("g")))
            assert consumer._coordinator.generation == generation
            assert (await consumer.end_offsets([where]))[where] == ROUNDS
        finally:
            await producer.stop()
            await consumer.stop()


@in_loop
async def test_group_follows_a_broker_that_stops_in_order() -> None:
    async with cluster(topics={"t": 1}) as kafka:
        consumer = AIOKafkaConsumer("t", **kafka.client_config("aiokafka", group_id="g"))
        await consumer.start()
        try:
            generation = consumer._coordinator.generation
            stopped = kafka.coordinator_of("g")
            await kafka.stop(stopped)
            await kafka.wait_coordinator("g")
            await consumer.commit({TopicPartition("t", 0): 7})
            assert consumer._coordinator.generation == generation
            assert kafka.brokers == [each for each in (1, 2, 3) if each != stopped]
        finally:
            await consumer.stop()


@contextmanager
def polling(consumer: Any) -> Iterator[list[int]]:
    """Poll a consumer of kafka-python in a thread; the list receives what it reads."""
    values: list[int] = []
    ended = threading.Event()

    def poll() -> None:
        while not ended.is_set():
            for records in consumer.poll(200).values():
                values.extend(int(each.value) for each in records)

    thread = threading.Thread(target=poll)
    thread.start()
    try:
        yield values
    finally:
        ended.set()
        thread.join()
        consumer.close()


def test_kafka_python_reads_each_record_once_while_leaders_die() -> None:
    with cluster(topics={"t": 1}) as kafka:
        config = kafka.client_config("kafka-python", group_id="g")
        producer = kafka_python.KafkaProducer(
            bootstrap_servers=kafka.bootstrap_servers, acks="all", enable_idempotence=True
        )
        consumer = kafka_python.KafkaConsumer("t", **config)
        with polling(consumer) as values:
            for number in range(ROUNDS):
                producer.send("t", str(number).encode()).get(30)
                dead = kafka.leader_of("t")
                assert dead is not None
                kafka.kill(dead)
                kafka.start(dead)
            eventually(lambda: len(values) >= ROUNDS, "all records")
            assert values == list(range(ROUNDS))
        producer.close()


def test_transactions_of_librdkafka_survive_their_coordinator() -> None:
    with cluster(topics={"t": 1}) as kafka:
        servers = {"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0}
        producer = confluent_kafka.Producer({**servers, "transactional.id": "x"})
        producer.init_transactions(30)
        for number in range(ROUNDS):
            producer.begin_transaction()
            producer.produce("t", str(number).encode())
            producer.flush(30)
            dead = kafka.transaction_coordinator_of("x")
            assert dead is not None
            kafka.kill(dead)
            if number % 2:
                producer.abort_transaction(30)
            else:
                producer.commit_transaction(30)
            kafka.start(dead)
        consumer = confluent_kafka.Consumer(
            {**servers, "group.id": "g", "auto.offset.reset": "earliest"}
        )
        consumer.assign([confluent_kafka.TopicPartition("t", 0, 0)])
        values: list[bytes | None] = []

        def read() -> bool:
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                values.append(message.value())
            return len(values) >= ROUNDS // 2

        eventually(read, "the records of committed transactions")
        assert values == [b"0", b"2"]
        consumer.close()


@in_loop
async def test_paused_coordinator_answers_when_it_goes_on() -> None:
    async with cluster(topics={"t": 1}) as kafka:
        consumer = AIOKafkaConsumer("t", **kafka.client_config("aiokafka", group_id="g"))
        await consumer.start()
        try:
            generation = consumer._coordinator.generation
            where = TopicPartition("t", 0)
            with kafka.paused(kafka.coordinator_of("g")):
                commit = asyncio.ensure_future(consumer.commit({where: 3}))
                done, _ = await asyncio.wait([commit], timeout=0.5)
                assert not done
            await asyncio.wait_for(commit, 10)
            assert await consumer.committed(where) == 3
            assert consumer._coordinator.generation == generation
        finally:
            await consumer.stop()


@in_loop
async def test_paused_broker_is_taken_for_dead_and_comes_back() -> None:
    async with cluster(topics={"t": 1}) as kafka:
        old = kafka.coordinator_of("g")
        assert old is not None
        with kafka.paused(old, detect_ms=100):
            await kafka.wait_isr("t", isr=[each for each in (1, 2, 3) if each != old])
            assert kafka.coordinator_of("g") != old
            consumer = AIOKafkaConsumer("t", **kafka.client_config("aiokafka", group_id="g"))
            await consumer.start()
            await consumer.commit({TopicPartition("t", 0): 3})
        assert kafka.isr_of("t") == [1, 2, 3]
        await consumer.stop()


def test_others_learn_late_of_a_dead_broker() -> None:
    with cluster(topics={"t": 3}) as kafka:
        dead = kafka.leader_of("t")
        kafka.kill(dead, detect_ms=300)
        assert kafka.leader_of("t") == dead
        with pytest.raises(WaitTimedOut, match=r"a broker leads t-0: not so within 0\.05 s"):
            kafka.wait_leader("t", timeout=0.05)
        kafka.wait_leader("t")
        assert dead is not None
        kafka.wait_isr("t", isr=[each for each in (1, 2, 3) if each != dead])
        kafka.start(dead)
        kafka.wait_isr("t", isr=[1, 2, 3])


def test_topics_have_the_replicas_that_a_test_asks_for() -> None:
    with cluster() as kafka:
        kafka.topic("alone", replicas=1)
        kafka.topic("placed", partitions=2, replicas=[[3, 1], [2, 3]])
        assert [kafka.leader_of("placed", index) for index in (0, 1)] == [3, 2]
        leader = kafka.leader_of("alone")
        kafka.kill(leader)
        assert (kafka.leader_of("alone"), kafka.isr_of("alone")) == (None, [])
        with pytest.raises(WrongUse, match="there is no such broker now"):
            kafka.kill(kafka.leader_of("alone"))


def test_wrong_use_names_what_there_is() -> None:
    with pytest.raises(WrongUse, match="brokers is from 2 to 9, not 1"):
        cluster(1)
    with cluster() as kafka:
        with pytest.raises(WrongUse, match="there is no broker 7; there are 1, 2, 3"):
            kafka.kill(7)
        kafka.kill(2)
        with pytest.raises(WrongUse, match="broker 2 does not run; those that do are 1, 3"):
            kafka.stop(2)
        with pytest.raises(WrongUse, match="broker 1 runs already"):
            kafka.start(1)
        with pytest.raises(WrongUse, match="there is no partition t-0"):
            kafka.move("t", to=1)
        with pytest.raises(WrongUse, match=r"only 3 broker\(s\) are registered"):
            kafka.topic("t", replicas=4)


def test_cluster_starts_again_at_its_addresses() -> None:
    kafka = cluster(2)
    with kafka:
        before = kafka.bootstrap_servers
    with kafka:
        assert kafka.bootstrap_servers == before
        kafka.topic("t")


@in_loop
async def test_consumer_waits_for_metadata_that_is_late() -> None:
    async with cluster(topics={"t": 1}) as kafka:
        producer = AIOKafkaProducer(bootstrap_servers=kafka.bootstrap_servers)
        await producer.start()
        try:
            await producer.send_and_wait("t", b"one")
            kafka.delay_metadata(300)
            await kafka.move("t", to=other(kafka, kafka.leader_of("t")))
            async with asyncio.timeout(20):
                sent = await producer.send_and_wait("t", b"two")
            assert sent.offset == 1
        finally:
            await producer.stop()
