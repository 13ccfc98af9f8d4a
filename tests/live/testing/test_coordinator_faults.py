"""Coordinators that load and move, and partitions without a leader: what clients do."""

from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from coterie.testing import (
    AnswerError,
    Broker,
    CoordinatorLoads,
    CoordinatorMoves,
    NoLeader,
    VirtualClock,
)
from tests.live.deadlines import eventually
from tests.live.testing.consumers import confluent, kafka_python
from tests.live.testing.stories import TOPIC, in_virtual_time, member


def test_members_join_when_the_coordinator_has_loaded() -> None:
    async def story(kafka: Broker, clock: VirtualClock) -> None:
        with kafka.fault(CoordinatorLoads(), group="g", for_seconds=5) as loading:
            async with member(kafka, "one"), member(kafka, "two"):
                await kafka.group("g").wait_stable(members=2)
                assert 5 <= clock.elapsed_s < 7
                loading.must_have_hit()
                assert kafka.faults == []

    in_virtual_time(story)


@pytest.mark.parametrize("library", [kafka_python, confluent])
def test_consumer_commits_when_the_coordinator_has_loaded(library: Any) -> None:
    with (
        Broker(topics={"t": 1}) as kafka,
        library(kafka, "g", "t", auto_commit_interval_ms=100),
    ):
        group = kafka.group("g").wait_assigned().result
        # Until a commit has met it: in a fixed time a busy consumer might commit nothing.
        with kafka.fault(CoordinatorLoads(), api="OffsetCommit") as loading:
            kafka.produce("t", "a")
            eventually(lambda: loading.hits > 0, "a commit while the coordinator loads")
        group.wait_committed({("t", 0): 1})


def test_aiokafka_follows_its_coordinator_to_another_node() -> None:
    async def story(kafka: Broker, clock: VirtualClock) -> None:
        async with member(kafka, "one"):
            group = kafka.group("g")
            await group.wait_assigned(TOPIC)
            generation = group.generation
            await clock.advance(1)
            before = kafka.requests.last("Heartbeat").connection_id
            with kafka.fault(CoordinatorMoves(), group="g") as move:
                await clock.advance(10)
                # NOT_COORDINATOR, and FindCoordinator after it.
                assert 2 <= move.hits < 10
                assert kafka.requests.last("Heartbeat").connection_id != before
                assert group.state == "Stable"
            await clock.advance(10)
            assert kafka.requests.last("Heartbeat").connection_id == before
            assert (group.state, group.generation) == ("Stable", generation)

    in_virtual_time(story)


@pytest.mark.parametrize("library", [kafka_python, confluent])
def test_consumer_follows_its_coordinator_to_another_node(library: Any) -> None:
    with Broker(topics={"t": 1}) as kafka, library(kafka, "g", "t", heartbeat_interval_ms=200):
        group = kafka.group("g").wait_assigned().result

        def connection() -> int:
            return int(kafka.requests.last("Heartbeat").connection_id)

        eventually(lambda: kafka.requests.of("Heartbeat"), "a heartbeat")
        before = connection()
        with kafka.fault(CoordinatorMoves()) as move:
            eventually(lambda: move.hits >= 2, "the look-up of the coordinator")
            eventually(lambda: connection() != before, "heartbeats to the other node")
            there = connection()
        eventually(lambda: connection() != there, "heartbeats to the first node")
        assert group.state == "Stable"


def test_coordinator_is_elsewhere_after_a_restart_too() -> None:
    async def story(kafka: Broker, clock: VirtualClock) -> None:
        with kafka.fault(CoordinatorMoves()) as move:
            async with member(kafka, "one"):
                group = kafka.group("g")
                await group.wait_assigned(TOPIC)
                before = move.hits
                await kafka.restart()
                await clock.advance(10)
                await group.wait_stable(members=1)
                assert move.hits > before

    in_virtual_time(story)


def test_producer_waits_for_a_leader() -> None:
    async def story(kafka: Broker, clock: VirtualClock) -> None:
        config = kafka.client_config("aiokafka", client_id="p")
        with kafka.fault(NoLeader(), topic=TOPIC, for_seconds=3) as fault:
            async with AIOKafkaProducer(**config) as producer:
                await producer.send_and_wait(TOPIC, b"a", partition=0)
            assert clock.elapsed_s >= 3
            fault.must_have_hit()
        assert [each.value for each in kafka.records(TOPIC)] == [b"a"]

    in_virtual_time(story)


@pytest.mark.parametrize("library", [kafka_python, confluent])
def test_consumer_waits_for_a_leader(library: Any) -> None:
    config = {"metadata_max_age_ms": 500} if library is kafka_python else {}
    with Broker(topics={"t": 1}) as kafka, library(kafka, "g", "t", **config) as values:
        kafka.group("g").wait_assigned()
        # Until a request has met it: in a fixed time a busy consumer might send none.
        with kafka.fault(NoLeader(), topic="t") as fault:
            eventually(lambda: fault.hits > 0, "requests without a leader")
        kafka.produce("t", "a")
        eventually(lambda: values == [b"a"], "the record")


def test_topic_is_not_ready_at_first() -> None:
    async def story(kafka: Broker, clock: VirtualClock) -> None:
        error = AnswerError("LEADER_NOT_AVAILABLE")
        with kafka.fault(error, api="Metadata", topic=TOPIC, for_seconds=2) as fault:
            config = kafka.client_config("aiokafka", group_id="g")
            async with AIOKafkaConsumer(TOPIC, **config):
                await kafka.group("g").wait_assigned(TOPIC)
            assert clock.elapsed_s >= 2
            fault.must_have_hit()

    in_virtual_time(story)
