"""Tests of the outbox worker."""

import asyncio

import pytest

from coterie.testing import AnswerError, Broker, CloseAfter
from examples.outbox.worker import Outbox, handle_events, send_outbox

pytestmark = [pytest.mark.asyncio, pytest.mark.kafka(topics={"events": 1})]


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
    worker = asyncio.create_task(handle_events(handle, kafka.bootstrap_servers, "events"))
    await kafka.group("outbox-handlers").wait_committed({("events", 0): 2})
    worker.cancel()
    assert handled == [b"created", b"paid"]


async def test_slow_handler_is_replaced(kafka: Broker) -> None:
    """A handler that takes six minutes loses its partition after five: max.poll.interval.ms."""

    async def handle(_event: bytes) -> None:
        await asyncio.sleep(360)

    async with kafka.virtual_time() as clock:
        kafka.produce("events", "created")
        worker = asyncio.create_task(handle_events(handle, kafka.bootstrap_servers, "events"))
        group = kafka.group("outbox-handlers")
        await group.wait_assigned("events")
        await group.wait_empty(timeout_s=400)
        assert 299 < clock.elapsed_s < 310
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)
    assert group.offsets == {}
