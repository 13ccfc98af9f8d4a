"""Views of a group: what they show, what they wait for, what they do to it."""

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer

from coterie.testing import Broker, BrokerLeak, WaitTimedOut, WrongUse
from tests.live.testing.consumers import confluent, kafka_python

TOPICS = {"t": 4}
COMMITS_SOON = {"auto_commit_interval_ms": 100}


def test_group_is_shown() -> None:
    with Broker(topics=TOPICS) as kafka:
        group = kafka.group("g")
        assert (group.state, group.generation, group.members) == ("Dead", -1, ())
        with (
            kafka_python(
                kafka,
                "g",
                "t",
                client_id="one",
                group_instance_id="i-1",
                auto_commit_interval_ms=100,
            ),
            confluent(kafka, "g", "t", client_id="two"),
        ):
            group.wait_stable(members=2).result.wait_assigned("t")
            assert kafka.groups == ["g"]
            by_name = {each.client_id: each for each in group.members}
            assert by_name["one"].instance_id == "i-1"
            assert by_name["one"].topics == ("t",)
            assert len(by_name["one"].assignment) == len(by_name["two"].assignment) == 2
            assert set(group.assignment) == {("t", index) for index in range(4)}
            kafka.produce("t", *"abc", partition=3)
            group.wait_committed()
            assert group.offsets["t", 3] == 3
            assert sum(group.lag.values()) == 0
            assert group.history[0].trigger.cause == "join"
            assert group.history[-1].to_generation == group.generation
            assert "session 6 s" in group.stuck()
        # A static member does not leave when it is closed.
        assert [each.client_id for each in group.members] == ["one"]
        group.expel("i-1")
        group.wait_empty()
        assert {each.trigger.cause for each in group.history} >= {"join", "leave"}


def test_rebalance_is_forced_with_its_reason() -> None:
    with Broker(topics=TOPICS) as kafka, confluent(kafka, "g", "t"):
        group = kafka.group("g").wait_assigned().result
        generation = group.generation
        group.rebalance()
        group.wait_rebalanced(generation)
        last = group.history[-1]
        assert (last.trigger.cause, last.trigger.reason) == (
            "request", "the test asked for a rebalance",
        )  # fmt: skip
    with pytest.raises(Exception, match="does not run"):
        group.rebalance()


def test_member_is_expelled_and_returns() -> None:
    with Broker(topics=TOPICS) as kafka, kafka_python(kafka, "g", "t", client_id="one"):
        group = kafka.group("g").wait_assigned().result
        before = group.members[0].member_id
        group.expel("one", reason="test of its return")
        group.wait_assigned()
        assert group.members[0].member_id != before
        assert "test of its return" in [each.trigger.reason for each in group.history]
        with pytest.raises(WrongUse, match=r"no member has the id 'two'.*members: one"):
            group.expel("two")


def test_failed_wait_shows_the_group() -> None:
    with Broker(topics=TOPICS) as kafka, kafka_python(kafka, "g", "t", client_id="one"):
        group = kafka.group("g").wait_assigned().result
        with pytest.raises(WaitTimedOut) as caught:
            group.wait_stable(members=2, timeout_s=0.1)
        text = str(caught.value)
        assert text.startswith("group 'g' is Stable with 2 members: not so within 0.1 s\n")
        assert "group 'g': Stable, generation" in text
        assert "one (…" in text
        with pytest.raises(WaitTimedOut, match="no client has joined or committed"):
            kafka.group("other").wait_stable(timeout_s=0.05)
        with pytest.raises(WrongUse, match="no rebalance can begin now"):
            kafka.group("other").rebalance()


def test_stuck_names_the_member_that_is_missing() -> None:
    with (
        Broker(topics=TOPICS) as kafka,
        kafka_python(kafka, "g", "t", client_id="one", heartbeat_interval_ms=5_000),
    ):
        group = kafka.group("g").wait_stable().result
        group.rebalance()
        assert "waits for JoinGroup of one, at most" in group.stuck()


def test_waits_are_awaited_in_a_coroutine() -> None:
    async def run(kafka: Broker) -> None:
        config = kafka.client_config("aiokafka", group_id="g")
        async with AIOKafkaConsumer("t", **config) as consumer:
            group = kafka.group("g")
            await group.wait_stable(members=1)
            kafka.produce("t", "a")
            assert (await consumer.getone()).value == b"a"
            await consumer.commit()
            await group.wait_committed({("t", 0): 1})
            with pytest.raises(WaitTimedOut):
                await group.wait_empty(timeout_s=0.05)
            waiting = group.wait_stable(members=3, timeout_s=5)
            with pytest.raises(WrongUse, match="await"):
                _ = waiting.result
            del waiting
        await group.wait_empty()

    kafka = Broker(topics=TOPICS).start()
    asyncio.run(run(kafka))
    with pytest.raises(BrokerLeak, match=r"the wait `waiting = .*, which was never awaited"):
        kafka.close()
