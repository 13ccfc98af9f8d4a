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
    # The client knows its partitions before it joins: it may miss an assignment of a join that
    # metadata caused (client_findings.tsv, reading/starts-each-time).
    consumer.partitions_for_topic("t")

    def poll() -> None:
        while not ended.is_set():
            for records in consumer.poll(1_000).values():
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
            # It may ask the silent broker first, and wait for an answer for so long.
            config = kafka.client_config("aiokafka", group_id="g") | {"request_timeout_ms": 2_000}
            consumer = AIOKafkaConsumer("t", **config)
            await consumer.start()
            await consumer.commit({TopicPartition("t", 0): 3})
        assert kafka.isr_of("t") == [1, 2, 3]
        await consumer.stop()


@in_loop
async def test_group_outlives_brokers_in_virtual_time() -> None:
    async with cluster(topics={"t": 2}) as kafka, kafka.virtual_time() as clock:
        consumer = AIOKafkaConsumer("t", **kafka.client_config("aiokafka", group_id="g"))
        await consumer.start()
        generation = consumer._coordinator.generation
        for number in range(1, 4):
            dead = kafka.coordinator_of("g")
            assert dead is not None
            await kafka.kill(dead, detect_ms=9000)
            # Longer than the session of the member.
            await clock.advance(12)
            assert kafka.coordinator_of("g") != dead
            await consumer.commit({TopicPartition("t", 0): number})
            await kafka.start(dead)
            await clock.advance(30)
        assert consumer._coordinator.generation == generation
        await consumer.stop()
        assert clock.elapsed_s > 100


def test_others_learn_late_of_a_dead_broker() -> None:
    with cluster(topics={"t": 3}) as kafka:
        dead = kafka.leader_of("t")
        kafka.kill(dead, detect_ms=300)
        assert kafka.leader_of("t") == dead
        with pytest.raises(WaitTimedOut, match=r"a broker leads t-0: not so within 0\.05 s"):
            kafka.wait_leader("t", timeout_s=0.05)
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
    with pytest.raises(WrongUse, match="brokers is from 2 to 9, not 'three'"):
        cluster("three")  # type: ignore[arg-type]
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
        kafka.topic("t")
    with kafka:
        assert kafka.bootstrap_servers == before
        assert kafka.leader_of("t") in (1, 2)


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


@in_loop
async def test_consumer_notices_that_the_end_of_a_log_is_gone() -> None:
    async with cluster(topics={"t": 1}) as kafka:
        config = kafka.client_config("confluent-kafka", group_id="g")
        settings = {"auto.offset.reset": "error", "enable.auto.commit": False}
        consumer = confluent_kafka.Consumer({**config, **settings})
        where = confluent_kafka.TopicPartition("t", 0, 0)
        producer = AIOKafkaProducer(bootstrap_servers=kafka.bootstrap_servers, acks="all")
        await producer.start()
        try:
            for number in range(10):
                await producer.send_and_wait("t", b"old %d" % number, partition=0)
            consumer.assign([where])
            seen = [await read_one(consumer) for _ in range(10)]
            assert seen == [b"old %d" % number for number in range(10)]
            leader, epoch = kafka.leader_of("t"), kafka.epoch_of("t")
            await kafka.cut("t", 0, to_offset=4)
            assert kafka.leader_of("t") != leader
            assert kafka.epoch_of("t") == epoch + 1
            assert sorted(kafka.isr_of("t")) == [1, 2, 3]
            with pytest.raises(confluent_kafka.KafkaException, match="truncat"):
                await read_one(consumer)
            sent = await producer.send_and_wait("t", b"new", partition=0)
            assert sent.offset == 4
            consumer.assign([where])
            seen = [await read_one(consumer) for _ in range(5)]
            assert seen == [b"old 0", b"old 1", b"old 2", b"old 3", b"new"]
        finally:
            consumer.close()
            await producer.stop()


def test_end_of_a_log_that_cannot_be_cut_off_is_named() -> None:
    with cluster(topics={"t": 1}) as kafka:
        kafka.cut("t", 0, to_offset=0)
        assert kafka.epoch_of("t") == 1
        with pytest.raises(WrongUse, match="offset 1 is outside of 0 to 0"):
            kafka.cut("t", 0, to_offset=1)
        with pytest.raises(WrongUse, match="there is no partition t-1"):
            kafka.cut("t", 1, to_offset=0)
        with pytest.raises(WrongUse, match="only the brokers write to __consumer_offsets"):
            kafka.cut("__consumer_offsets", 0, to_offset=0)
        kafka.topic("alone", replicas=[[2]])
        kafka.kill(2)
        with pytest.raises(WrongUse, match="alone-0 cannot be written to"):
            kafka.cut("alone", 0, to_offset=0)
        assert kafka.epoch_of("t") <= 2
    with cluster(topics={"t": 1}, flush="commit") as kafka:
        with pytest.raises(WrongUse, match="nothing is cut off with --flush commit"):
            kafka.cut("t", 0, to_offset=0)
        assert kafka.epoch_of("t") == 0


async def read_one(consumer: confluent_kafka.Consumer) -> bytes | None:
    """Return the next record; raise what the consumer reports instead."""
    message = await asyncio.to_thread(consumer.poll, 10)
    assert message is not None, "nothing came within ten seconds"
    if message.error():
        raise confluent_kafka.KafkaException(message.error())
    return message.value()
