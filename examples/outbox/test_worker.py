"""Tests of the outbox worker."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from coterie.testing import AnswerError, Broker, CloseAfter, CoordinatorLoads
from examples.outbox.worker import Outbox, handle_events, send_outbox

pytestmark = [pytest.mark.asyncio, pytest.mark.kafka(topics={"events": 1})]


@asynccontextmanager
async def working(kafka: Broker, handle: Callable[[bytes], Awaitable[None]]) -> AsyncIterator[None]:
    """Run the worker during a block."""
    worker = asyncio.create_task(handle_events(handle, kafka.bootstrap_servers, "events"))
    try:
        yield
    finally:
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)


async def test_events_are_sent_in_order(kafka: Broker) -> None:
    outbox: Outbox = [("a", b"created"), ("a", b"paid")]
    await send_outbox(outbox, kafka.bootstrap_servers, "events")
    assert not outbox
    assert [each.value for each in kafka.records("events")] == [b"created", b"paid"]


@pytest.mark.parametrize("fault", [AnswerError("NOT_LEADER_OR_FOLLOWER"), CloseAfter()])
async def test_event_is_stored_once_when_its_answer_is_lost(
    kafka: Broker, fault: AnswerError | CloseAfter
) -> None:
    outbox: Outbox = [("a", b"created")]
    with kafka.fault(fault, api="Produce", times=1) as lost:
        await send_outbox(outbox, kafka.bootstrap_servers, "events")
        lost.must_have_hit(1)
    assert [each.value for each in kafka.records("events")] == [b"created"]


async def test_handled_events_are_committed(kafka: Broker) -> None:
    handled: list[bytes] = []

    async def handle(event: bytes) -> None:
        handled.append(event)

    kafka.produce("events", "created", "paid")
    async with working(kafka, handle):
        await kafka.group("outbox-handlers").wait_committed({("events", 0): 2})
    assert handled == [b"created", b"paid"]


@pytest.mark.kafka(virtual_time=True)
async def test_slow_handler_is_replaced(kafka: Broker) -> None:
    """A handler that takes six minutes loses its partition after five: max.poll.interval.ms."""

    async def handle(_event: bytes) -> None:
        await asyncio.sleep(360)

    kafka.produce("events", "created")
    async with working(kafka, handle):
        group = kafka.group("outbox-handlers")
        await group.wait_assigned("events")
        await group.wait_empty(timeout_s=400)
        assert 299 < kafka.clock.elapsed_s < 310
    assert group.offsets == {}


@pytest.mark.kafka(virtual_time=True)
async def test_commit_waits_for_a_minute_until_the_coordinator_has_loaded(kafka: Broker) -> None:
    handled: list[bytes] = []

    async def handle(event: bytes) -> None:
        handled.append(event)

    async with working(kafka, handle):
        group = kafka.group("outbox-handlers")
        await group.wait_assigned("events")
        with kafka.fault(CoordinatorLoads(), api="OffsetCommit", for_seconds=60) as loading:
            kafka.produce("events", "created")
            await kafka.clock.advance(60)
            loading.must_have_hit()
        await group.wait_committed({("events", 0): 1}, timeout_s=120)
    assert set(handled) == {b"created"}
