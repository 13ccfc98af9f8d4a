"""Virtual time: hours in milliseconds, a seed gives the same again, stories as in real time."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from coterie.testing import Broker, WaitTimedOut
from coterie.testing.memory_connections import Frame
from coterie.testing.virtual_time import START_MS
from coterie.virtual.selector import JumpingSelector
from tests.live.testing.stories import STORIES, Story, told

HOUR_S = 3600
WEEK_S = 7 * 24 * HOUR_S


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_story_has_the_same_history_in_both_times(story: Story) -> None:
    virtual = asyncio.run(told(story, virtually=True))
    assert virtual, "a story has rebalances"
    assert asyncio.run(told(story, virtually=False)) == virtual


def test_stories_in_virtual_time_are_quick() -> None:
    began_s = time.process_time()
    for story in STORIES:
        asyncio.run(told(story, virtually=True))
    # The goal is 3 s; a machine of continuous integration may take many times as long.
    assert time.process_time() - began_s < 60


async def consume(seed: int) -> list[Frame]:
    """Return what two consumers and a producer exchange with the broker in half a minute."""
    async with Broker(topics={"t": 4}) as kafka, kafka.virtual_time(seed) as clock:
        config = kafka.client_config("aiokafka", group_id="g")
        async with (
            AIOKafkaConsumer("t", **config, client_id="one") as one,
            AIOKafkaConsumer("t", **config, client_id="two"),
            AIOKafkaProducer(**kafka.client_config("aiokafka", client_id="three")) as producer,
        ):
            await kafka.group("g").wait_stable(members=2)
            for number in range(20):
                await producer.send_and_wait("t", str(number).encode(), partition=number % 4)
                await clock.advance(1)
            assert await one.getmany(timeout_ms=1000)
        return clock.trace


def test_same_seed_gives_the_same_bytes() -> None:
    first, again, other = (asyncio.run(consume(seed)) for seed in (1, 1, 2))
    assert len(first) > 200
    assert first == again
    assert first != other


def run(story: Callable[[Broker], Coroutine[Any, Any, None]], **options: Any) -> None:
    """Run a coroutine with a broker."""
    with Broker(topics={"t": 1}, **options) as kafka:
        asyncio.run(story(kafka))


def test_clocks_agree_in_the_block_and_are_real_after_it() -> None:
    async def story(kafka: Broker) -> None:
        loop = asyncio.get_running_loop()
        real = time.time, time.monotonic, loop.time()
        async with kafka.virtual_time() as clock:
            began_s = time.monotonic()
            assert int(time.time() * 1000) == START_MS + round(clock.elapsed_s * 1000)
            await asyncio.sleep(HOUR_S)
            assert time.monotonic() - began_s == pytest.approx(HOUR_S, abs=0.01)
            assert loop.time() == time.monotonic()
            assert time.monotonic_ns() == pytest.approx(time.monotonic() * 1e9)
        assert (time.time, time.monotonic) == real[:2]
        assert 0 <= loop.time() - real[2] < HOUR_S

    run(story)


def test_offsets_expire_after_a_week() -> None:
    async def story(kafka: Broker) -> None:
        async with kafka.virtual_time() as clock:
            config = kafka.client_config("aiokafka", group_id="g")
            async with AIOKafkaConsumer("t", **config) as consumer:
                kafka.produce("t", "a")
                await consumer.getone()
                await consumer.commit()
            group = kafka.group("g")
            await clock.advance(WEEK_S - HOUR_S)
            assert group.offsets == {("t", 0): 1}
            await clock.advance(2 * HOUR_S)
            assert group.offsets == {}
            assert group.state == "Dead"

    # The log is not cleaned meanwhile: a week has forty thousand such rounds.
    run(story, config={"log.cleaner.backoff.ms": "3600000"})


def test_automatic_commits_do_not_spin(monkeypatch: pytest.MonkeyPatch) -> None:
    """aiokafka commits if it is later than its deadline; at the deadline it asks again at once."""
    turns: Counter[float] = Counter()
    select = JumpingSelector.select

    def counted(self: JumpingSelector, timeout: float | None = None) -> Any:
        turns[time.monotonic()] += 1
        return select(self, timeout)

    async def story(kafka: Broker) -> None:
        async with kafka.virtual_time() as clock:
            config = kafka.client_config("aiokafka", group_id="g", enable_auto_commit=True)
            kafka.produce("t", "a")
            async with AIOKafkaConsumer("t", **config) as consumer:
                await consumer.getone()
                monkeypatch.setattr(JumpingSelector, "select", counted)
                await clock.advance(290)

    run(story)
    assert turns.most_common(1)[0][1] < 100


def test_default_timeouts_pass_in_milliseconds() -> None:
    async def story(kafka: Broker) -> None:
        async with kafka.virtual_time() as clock:
            config = kafka.client_config(
                "aiokafka", group_id="g", session_timeout_ms=45_000, fetch_max_wait_ms=5_000
            )
            # It never polls again, so it leaves after max.poll.interval.ms.
            async with AIOKafkaConsumer("t", **config):
                group = kafka.group("g")
                await group.wait_stable(members=1)
                await group.wait_empty(timeout_s=400)
                assert 299 < clock.elapsed_s < 310
            with pytest.raises(WaitTimedOut, match="not so within 500 s"):
                await group.wait_stable(members=1, timeout_s=500)
            assert clock.elapsed_s > 799

    run(story)
