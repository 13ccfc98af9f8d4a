"""Views of groups follow their coordinators in a cluster; its faults meet requests everywhere."""

import asyncio
import threading
from itertools import pairwise
from typing import Any

import confluent_kafka
import kafka as kafka_python
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from coterie.testing import (
    AnswerError,
    Cluster,
    CoordinatorLoads,
    CoordinatorMoves,
    Delay,
    DiskFull,
    FaultNotHit,
    NoLeader,
    SlowDisk,
    WaitTimedOut,
    WrongUse,
    cluster,
)
from tests.live.deadlines import eventually
from tests.live.testing.test_cluster import in_loop, other, polling


async def no_longer(kafka: Cluster, node_id: int | None) -> None:
    def moved() -> bool:
        return kafka.coordinator_of("g") != node_id

    await asyncio.to_thread(eventually, moved, "another coordinator")


async def started(kafka: Cluster, *topics: str, **more: Any) -> AIOKafkaConsumer:
    settings = {
        "group_id": "g",
        "enable_auto_commit": False,
        "client_id": "one",
        "heartbeat_interval_ms": 100,
        **more,
    }
    consumer = AIOKafkaConsumer(*topics, **kafka.client_config("aiokafka", **settings))
    await consumer.start()
    return consumer


@in_loop
async def test_view_follows_its_group_through_kills_and_moves() -> None:
    async with cluster(topics={"t": 3}) as kafka:
        kafka.produce("t", "a", "b", partition=1)
        group = kafka.group("g")
        consumer = await started(kafka, "t")
        try:
            await group.wait_assigned("t")
            generation, members = group.generation, group.members
            places = [kafka.coordinator_of("g")]
            for number in range(1, 4):
                dead = kafka.coordinator_of("g")
                assert dead is not None
                await kafka.kill(dead)
                await consumer.commit({TopicPartition("t", 1): number})
                await group.wait_committed({("t", 1): number})
                assert (group.state, group.generation) == ("Stable", generation)
                assert group.members == members
                assert f"at broker {kafka.coordinator_of('g')}: Stable" in group.stuck()
                await kafka.start(dead)
                places.append(kafka.coordinator_of("g"))
                await kafka.move_coordinator("g", to=other(kafka, kafka.coordinator_of("g")))
                places.append(kafka.coordinator_of("g"))
                # The new coordinator is loading.
                assert group.offsets == {("t", 1): number}
            assert group.lag == {("t", 1): 0}
            assert kafka.groups == ["g"]
            assert len(group.history) == 1
            assert [each[1:] for each in group.moves] == list(pairwise(places))
            first, *later = group.history_lines()
            assert first.startswith("generation 1: join")
            assert later == [
                f"coordinator moved from broker {one} to {another}"
                for one, another in pairwise(places)
            ]
            group.rebalance()
            await group.wait_rebalanced(generation)
            await group.expel("one")
            await group.wait_rebalanced(generation + 1)
            assert [each.trigger.cause for each in group.history[-2:]][-1] == "join"
        finally:
            await consumer.stop()
        await group.wait_empty()
        await group.delete()
        assert kafka.groups == []


def see_member_while_its_coordinator_stops(kafka: Cluster, name: str) -> None:
    group = kafka.group(name)
    group.wait_assigned("t")
    stopped = kafka.coordinator_of(name)
    assert stopped is not None
    kafka.stop(stopped)
    group.wait_stable(members=1)
    (member,) = group.members
    assert member.client_id == name
    assert set(group.assignment) == {("t", 0), ("t", 1), ("t", 2)}
    assert [each.trigger.client_id for each in group.history] == [name] * len(group.history)
    kafka.start(stopped)


def test_member_of_kafka_python_is_seen_while_its_coordinator_stops() -> None:
    with cluster(topics={"t": 3}) as kafka:
        config = kafka.client_config("kafka-python", group_id="python", client_id="python")
        with polling(kafka_python.KafkaConsumer("t", **config)):
            see_member_while_its_coordinator_stops(kafka, "python")


def test_member_of_librdkafka_is_seen_while_its_coordinator_stops() -> None:
    with cluster(topics={"t": 3}) as kafka:
        config = kafka.client_config("confluent-kafka", group_id="c", client_id="c")
        consumer = confluent_kafka.Consumer(config)
        consumer.subscribe(["t"])
        ended = threading.Event()

        def poll() -> None:
            while not ended.is_set():
                consumer.poll(0.1)

        polls = threading.Thread(target=poll, daemon=True)
        polls.start()
        try:
            see_member_while_its_coordinator_stops(kafka, "c")
        finally:
            ended.set()
            polls.join(30)
            consumer.close()


def test_view_of_a_group_without_a_coordinator_says_so() -> None:
    with cluster(topics={"t": 1}) as kafka:
        group = kafka.group("g")
        group.wait_empty()
        assert (group.state, group.generation, group.members) == ("Dead", -1, ())
        dead = kafka.coordinator_of("g")
        kafka.kill(dead, detect_ms=60_000)
        with pytest.raises(WrongUse, match=f"group 'g' is at broker {dead}, which is down"):
            _ = group.state
        with pytest.raises(WaitTimedOut, match="which is down"):
            group.wait_empty(timeout_s=0.05)
        assert "which is down" in group.stuck()
        assert dead is not None
        kafka.start(dead)
        group.wait_empty()
        assert group.state == "Dead"
        for each in (1, 2, 3):
            kafka.kill(each)
        with pytest.raises(WrongUse, match="no broker runs"):
            _ = group.offsets
        with pytest.raises(WrongUse, match="no broker runs"):
            _ = kafka.topics


def test_records_are_appended_at_their_leader() -> None:
    with cluster() as kafka:
        kafka.topic("t", partitions=3, records=["a", "b", "c", "d"], replicas=[[3], [2], [1]])
        assert [each.value for each in kafka.records("t")] == [b"a", b"d", b"b", b"c"]
        assert kafka.topics == {"t": 3}
        kafka.kill(2)
        with pytest.raises(WrongUse, match="no broker that runs leads t-1"):
            kafka.produce("t", "e", partition=1)
        assert kafka.produce("t", "e", partition=0) == 2
        kafka.delete_topic("t")
        assert kafka.topics == {}


@in_loop
async def test_coordinator_really_moves_and_moves_back() -> None:
    async with cluster(topics={"t": 1}) as kafka:
        group = kafka.group("g")
        consumer = await started(kafka, "t")
        try:
            await group.wait_assigned("t")
            generation, before = group.generation, kafka.coordinator_of("g")
            with kafka.fault(CoordinatorMoves(), group="g") as fault:
                await no_longer(kafka, before)
                await consumer.commit({TopicPartition("t", 0): 5})
                fault.must_have_hit()
                hits = fault.hits
                await asyncio.sleep(0.5)
                assert fault.hits == hits, "at the new coordinator requests are handled"
                assert (group.offsets, group.generation) == ({("t", 0): 5}, generation)
            assert kafka.coordinator_of("g") == before
            await consumer.commit({TopicPartition("t", 0): 6})
            assert group.offsets == {("t", 0): 6}
            with kafka.fault(CoordinatorMoves(), api="Heartbeat", times=1) as fault:
                await kafka.wait_coordinator("g", node_id=before)
                await asyncio.to_thread(eventually, lambda: fault.hits, "a heartbeat")
                await kafka.wait_coordinator("g", node_id=before)
            with kafka.fault(CoordinatorMoves(), for_seconds=2):
                await consumer.commit({TopicPartition("t", 0): 7})
                assert kafka.coordinator_of("g") != before
                await kafka.wait_coordinator("g", node_id=before)
            assert group.generation == generation
        finally:
            await consumer.stop()


def test_leader_really_goes_and_comes_back() -> None:
    with cluster(topics={"t": 1, "u": 1}) as kafka:
        servers = {"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0}
        producer = confluent_kafka.Producer({**servers, "retry.backoff.ms": 20})
        leader, epoch = kafka.leader_of("t"), kafka.epoch_of("t")
        with kafka.fault(NoLeader(), topic="t") as fault:
            producer.produce("t", b"one", partition=0)
            eventually(lambda: not producer.poll(0) and kafka.leader_of("t") is None, "no leader")
            assert kafka.isr_of("t") == []
            assert kafka.leader_of("u") is not None
            assert producer.flush(0.3) == 1
            fault.must_have_hit()
        assert producer.flush(30) == 0
        assert (kafka.leader_of("t"), kafka.epoch_of("t")) == (leader, epoch + 2)
        assert sorted(kafka.isr_of("t")) == [1, 2, 3]
        assert [each.value for each in kafka.records("t")] == [b"one"]


@in_loop
async def test_faults_count_for_all_brokers_or_for_one() -> None:
    async with cluster(topics={"t": 1}) as kafka:
        consumer = await started(kafka, "t")
        try:
            here = kafka.coordinator_of("g")
            where = TopicPartition("t", 0)
            elsewhere = kafka.fault(AnswerError("REQUEST_TIMED_OUT"), node_id=other(kafka, here))
            await consumer.commit({where: 1})
            elsewhere.remove()
            late = kafka.fault(Delay(0.01), api="OffsetCommit", node_id=here)
            with pytest.raises(FaultNotHit, match="no OffsetCommit at broker"):
                late.must_have_hit()
            late.remove()
            with kafka.fault(CoordinatorLoads(), api="OffsetCommit", times=2) as loads:
                await consumer.commit({where: 2})
                loads.must_have_hit(times=2)
            assert {each.node_id for each in kafka.requests.of("OffsetCommit")} == {here}
            assert here is not None
            await kafka.kill(here)
            with kafka.fault(Delay(0.01), api="OffsetCommit") as fault:
                await consumer.commit({where: 3})
                await kafka.start(here)
                fault.must_have_hit()
            assert kafka.faults == []
        finally:
            await consumer.stop()


@in_loop
async def test_views_and_faults_in_virtual_time() -> None:
    async with cluster(topics={"t": 1}) as kafka, kafka.virtual_time() as clock:
        consumer = await started(kafka, "t")
        group = kafka.group("g")
        await group.wait_assigned("t")
        generation, before = group.generation, kafka.coordinator_of("g")
        with kafka.fault(CoordinatorMoves(), for_seconds=60):
            await clock.advance(30)
            assert kafka.coordinator_of("g") != before
            assert group.generation == generation
            await clock.advance(40)
            assert kafka.coordinator_of("g") == before
        await kafka.kill(before, detect_ms=9000)
        await group.wait_stable(members=1)
        assert clock.elapsed_s > 70 + 9
        await consumer.commit({TopicPartition("t", 0): 1})
        assert group.offsets == {("t", 0): 1}
        await clock.advance(10)
        await consumer.stop()
        await group.wait_empty()


@in_loop
async def test_disk_of_a_cluster_is_full_and_slow() -> None:
    async with cluster(topics={"t": 1, "u": 1}, flush="commit") as kafka:
        producer = AIOKafkaProducer(bootstrap_servers=kafka.bootstrap_servers, acks="all")
        await producer.start()
        try:
            loop = asyncio.get_running_loop()
            with kafka.fault(SlowDisk(0.3)) as slow:
                began = loop.time()
                await producer.send_and_wait("t", b"one")
                assert loop.time() - began >= 0.25
                slow.must_have_hit()
            with kafka.fault(DiskFull(), topic="u") as full:
                with pytest.raises(WrongUse, match="KAFKA_STORAGE_ERROR"):
                    kafka.produce("u", "two")
                full.must_have_hit()
        finally:
            await producer.stop()


def test_wrong_use_of_faults_is_named() -> None:
    with cluster(2) as kafka:
        with pytest.raises(WrongUse, match="node_id: there is no broker 3; there are 1, 2"):
            kafka.fault(CoordinatorLoads(), node_id=3)
        with pytest.raises(WrongUse, match="make it with flush='commit'"):
            kafka.fault(SlowDisk(1))
        with pytest.raises(WrongUse, match="only `topic` narrows it down"):
            kafka.fault(DiskFull(), node_id=1)
        kafka.kill(1)
        with pytest.raises(WrongUse, match="cannot move: no other broker runs"):
            kafka.fault(CoordinatorMoves())
