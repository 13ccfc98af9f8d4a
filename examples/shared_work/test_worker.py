"""Tests of the worker of a share group."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from coterie.testing import Broker
from examples.shared_work.worker import Unusable, run

pytestmark = pytest.mark.kafka(topics={"orders": 1})


@contextmanager
def working(kafka: Broker, name: str, handle: Callable[[bytes], None]) -> Iterator[None]:
    """Run a worker in a thread during a block."""
    stopping = threading.Event()
    config = kafka.client_config(
        "confluent-kafka", group_id="billing", protocol="share", client_id=name
    )
    arguments = ({"log_level": 0, **config}, "orders", handle, stopping.is_set)
    thread = threading.Thread(target=run, args=arguments)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join(30)


def test_poison_record_is_given_up_and_stops_nobody(kafka: Broker) -> None:
    kafka.produce("orders", "tea", "poison", "milk")
    handled: list[bytes] = []

    def handle(value: bytes) -> None:
        if value == b"poison":
            raise RuntimeError("it is delivered five times")
        handled.append(value)

    group = kafka.group("billing")
    with working(kafka, "one", handle):
        group.wait_archived({("orders", 0): 1})
        group.wait_acknowledged()
    assert handled == [b"tea", b"milk"]
    of_poison = [each for each in group.deliveries if each.first_offset == 1]
    assert [each.became for each in of_poison] == [*["AVAILABLE"] * 4, "ARCHIVED"]


def test_unusable_record_is_not_delivered_again(kafka: Broker) -> None:
    kafka.produce("orders", "nonsense")

    def handle(value: bytes) -> None:
        raise Unusable(value)

    with working(kafka, "one", handle):
        kafka.group("billing").wait_archived({("orders", 0): 0})
    (delivery,) = kafka.group("billing").deliveries
    assert delivery.delivery_count == 1


def test_record_of_a_worker_that_hangs_is_delivered_to_another_one(kafka: Broker) -> None:
    kafka.produce("orders", "tea")
    group, ends = kafka.group("billing"), threading.Event()
    handled: list[bytes] = []

    def hang(_value: bytes) -> None:
        ends.wait(30)

    with working(kafka, "hangs", hang):
        group.wait_acquired()
        with working(kafka, "works", handled.append):
            group.wait_stable(members=2)
            kafka.advance(31)  # the lock lasts for 30 s
            group.wait_acknowledged()
            # It is too late for the other one, whose acknowledgement is refused.
            ends.set()
    assert handled == [b"tea"]
    assert [each.became for each in group.deliveries] == ["AVAILABLE", "ACKNOWLEDGED"]
