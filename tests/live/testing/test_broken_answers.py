"""Answers that come late, broken or never: what aiokafka does in virtual time, and librdkafka."""

import asyncio
from typing import Any

import confluent_kafka
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError, KafkaTimeoutError, RequestTimedOutError

from coterie.testing import (
    AnswerError,
    AnswerGarbage,
    Broker,
    CloseAfter,
    CloseBefore,
    CutAnswer,
    Delay,
    NeverAnswer,
    Throttle,
    VirtualClock,
)
from coterie.testing.actions import Action
from tests.live.deadlines import GENEROUS_S, eventually
from tests.live.testing.consumers import confluent
from tests.live.testing.stories import TOPIC, in_virtual_time, member

REQUEST_TIMEOUT_S = 40


@pytest.mark.parametrize("handle", [False, True])
def test_unanswered_commit_times_out_and_may_have_taken_effect(handle: bool) -> None:
    async def story(kafka: Broker, clock: VirtualClock) -> None:
        kafka.produce(TOPIC, "a")
        # Heartbeats wait behind the answer, so the session must be longer.
        config = kafka.client_config(
            "aiokafka", group_id="g", enable_auto_commit=False, session_timeout_ms=90_000
        )
        async with AIOKafkaConsumer(TOPIC, **config) as consumer:
            await consumer.getone()
            began_s = clock.elapsed_s
            with kafka.fault(NeverAnswer(handle=handle), api="OffsetCommit", times=1) as fault:
                partition = TopicPartition(TOPIC, 0)
                commit = asyncio.create_task(consumer.commit({partition: 1}))
                await clock.advance(REQUEST_TIMEOUT_S - 1)
                assert kafka.group("g").offsets == ({(TOPIC, 0): 1} if handle else {})
                assert not commit.done()
                await commit
            # It asks again after its request has timed out.
            assert REQUEST_TIMEOUT_S <= clock.elapsed_s - began_s < REQUEST_TIMEOUT_S + 2
            fault.must_have_hit(1)
            assert kafka.group("g").offsets == {(TOPIC, 0): 1}

    in_virtual_time(story)


def test_late_join_holds_the_group_up() -> None:
    async def story(kafka: Broker, clock: VirtualClock) -> None:
        with kafka.fault(Delay(20), api="SyncGroup", client_id="one", times=1) as late:
            group = kafka.group("g")

            async def join() -> None:
                async with member(kafka, "one", session_timeout_ms=30_000):
                    await group.wait_stable(members=1)

            joining = asyncio.create_task(join())
            await clock.advance(10)
            assert group.state == "CompletingRebalance"
            assert "the SyncGroup of the leader one" in group.stuck()
            await joining
            assert 20 <= clock.elapsed_s < 22
            late.must_have_hit(1)

    in_virtual_time(story)


@pytest.mark.parametrize(
    ("action", "stored"),
    [(CloseBefore(), 1), (CloseAfter(), 2), (CutAnswer(9), 2)],
    ids=["close before", "close after", "cut"],
)
def test_producer_sends_again_when_the_answer_is_broken(action: Action, stored: int) -> None:
    async def story(kafka: Broker, clock: VirtualClock) -> None:
        async with AIOKafkaProducer(**kafka.client_config("aiokafka")) as producer:
            with kafka.fault(action, api="Produce", times=1) as fault:
                await producer.send_and_wait(TOPIC, b"a", partition=0)
            fault.must_have_hit(1)
        assert clock.elapsed_s < REQUEST_TIMEOUT_S + 2
        # Without idempotence a record is stored twice if its answer is lost.
        assert [each.value for each in kafka.records(TOPIC)] == [b"a"] * stored

    in_virtual_time(story)


def test_producer_gives_up_after_its_timeout() -> None:
    async def story(kafka: Broker, clock: VirtualClock) -> None:
        async with AIOKafkaProducer(**kafka.client_config("aiokafka")) as producer:
            with kafka.fault(AnswerError("REQUEST_TIMED_OUT"), api="Produce") as fault:
                with pytest.raises((RequestTimedOutError, KafkaTimeoutError)):
                    await producer.send_and_wait(TOPIC, b"a", partition=0)
                assert clock.elapsed_s >= REQUEST_TIMEOUT_S
                assert fault.hits > 100

    in_virtual_time(story)


def test_garbage_is_an_error_of_the_record() -> None:
    async def story(kafka: Broker, _clock: VirtualClock) -> None:
        async with AIOKafkaProducer(**kafka.client_config("aiokafka")) as producer:
            fault = kafka.fault(AnswerGarbage(), api="Produce", times=1)
            with pytest.raises(KafkaError):
                await producer.send_and_wait(TOPIC, b"a", partition=0)
            fault.must_have_hit(1)
        assert kafka.records(TOPIC) == []

    in_virtual_time(story)


def test_garbage_is_in_the_delivery_report_of_librdkafka() -> None:
    errors: list[Any] = []
    with Broker(topics={"t": 1}) as kafka, kafka.fault(AnswerGarbage(), api="Produce") as fault:
        producer = confluent_kafka.Producer(
            {"log_level": 0, **kafka.client_config("confluent-kafka")}
        )
        producer.produce("t", b"a", on_delivery=lambda error, _: errors.append(error))
        assert producer.flush(GENEROUS_S) == 0
        assert [error.name() for error in errors] == ["_UNDERFLOW"]
        fault.must_have_hit(1)


@pytest.mark.parametrize(
    "action", [CloseBefore(), CloseAfter(), CutAnswer(9)],
    ids=lambda action: type(action).__name__,
)  # fmt: skip
def test_librdkafka_delivers_once_with_idempotence(action: Action) -> None:
    with Broker(topics={"t": 1}) as kafka, kafka.fault(action, api="Produce", times=1) as fault:
        config = kafka.client_config(
            "confluent-kafka", enable_idempotence=True, reconnect_backoff_ms=20,
            socket_timeout_ms=1_000, retry_backoff_ms=20,
        )  # fmt: skip
        producer = confluent_kafka.Producer({"log_level": 0, **config})
        producer.produce("t", b"a")
        assert producer.flush(GENEROUS_S) == 0
        fault.must_have_hit(1)
        assert [each.value for each in kafka.records("t")] == [b"a"]


def test_librdkafka_reports_that_it_is_throttled() -> None:
    events: list[Any] = []
    with Broker(topics={"t": 1}) as kafka, kafka.fault(Throttle(50), api="Produce") as fault:
        config = {**kafka.client_config("confluent-kafka"), "throttle_cb": events.append}
        producer = confluent_kafka.Producer({"log_level": 0, **config})
        producer.produce("t", b"a")
        eventually(lambda: (producer.poll(0.05), events)[1], "the event")
        assert events[0].throttle_time == pytest.approx(0.05)
        assert producer.flush(GENEROUS_S) == 0
        fault.must_have_hit()


def test_librdkafka_fetches_again_after_silence() -> None:
    with (
        Broker(topics={"t": 1}) as kafka,
        confluent(kafka, "g", "t", socket_timeout_ms=1_000, fetch_wait_max_ms=100) as values,
    ):
        kafka.group("g").wait_assigned()
        with kafka.fault(NeverAnswer(), api="Fetch", topic="t", times=1) as silent:
            eventually(lambda: silent.hits, "a fetch without an answer")
        kafka.produce("t", "a")
        eventually(lambda: values == [b"a"], "the record")
