"""Tests of the batch consumer."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from coterie.testing import Broker, CoordinatorLoads
from examples.batches.consumer import run

pytestmark = pytest.mark.kafka(topics={"t": 1})


@contextmanager
def running(kafka: Broker, handled: list[bytes], **config: Any) -> Iterator[None]:
    """Run a consumer in a thread during a block."""
    stopping = threading.Event()
    settings = kafka.client_config("confluent-kafka", group_id="batches", **config)
    arguments = ({"log_level": 0, **settings}, "t", handled.extend, stopping.is_set)
    thread = threading.Thread(target=run, args=arguments)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join(30)


def test_batches_are_handled_and_committed(kafka: Broker) -> None:
    handled: list[bytes] = []
    kafka.produce("t", *(str(number) for number in range(25)))
    with running(kafka, handled):
        kafka.group("batches").wait_committed({("t", 0): 25})
    assert handled == [str(number).encode() for number in range(25)]


def test_batch_that_fails_is_read_again(kafka: Broker) -> None:
    kafka.produce("t", "a", "b")

    def fail(_values: list[bytes]) -> None:
        raise RuntimeError("the database is down")

    config = kafka.client_config("confluent-kafka", group_id="batches")
    with pytest.raises(RuntimeError, match="database"):
        run({"log_level": 0, **config}, "t", fail, lambda: False)
    assert ("t", 0) not in kafka.group("batches").offsets
    handled: list[bytes] = []
    with running(kafka, handled):
        kafka.group("batches").wait_committed({("t", 0): 2})
    assert handled == [b"a", b"b"]


def test_commit_is_retried_while_the_coordinator_loads(kafka: Broker) -> None:
    handled: list[bytes] = []
    with running(kafka, handled):
        group = kafka.group("batches").wait_assigned("t").result
        with kafka.fault(CoordinatorLoads(), api="OffsetCommit", for_seconds=0.5) as loading:
            kafka.produce("t", "a")
            group.wait_committed({("t", 0): 1})
            loading.must_have_hit()
    assert handled == [b"a"]


def test_batch_is_read_again_when_a_loss_of_power_takes_its_commit(kafka: Broker) -> None:
    handled: list[bytes] = []
    kafka.produce("t", "a")
    kafka.flush()
    with running(kafka, handled):
        kafka.group("batches").wait_committed({("t", 0): 1})
    kafka.lose_power()
    assert kafka.group("batches").offsets == {}
    with running(kafka, handled):
        kafka.group("batches").wait_committed({("t", 0): 1})
    assert handled == [b"a", b"a"]


def test_expelled_consumer_comes_back(kafka: Broker) -> None:
    handled: list[bytes] = []
    with running(kafka, handled, client_id="one"):
        group = kafka.group("batches").wait_assigned("t").result
        group.expel("one")
        group.wait_assigned("t")
        kafka.produce("t", "a")
        group.wait_committed({("t", 0): 1})
    assert handled == [b"a"]
