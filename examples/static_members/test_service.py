"""Tests of the service with static members."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from coterie.testing import Broker
from examples.static_members.service import run

pytestmark = pytest.mark.kafka(topics={"t": 4})

SESSION_MS = 2_000


@contextmanager
def member(kafka: Broker, instance_id: str) -> Iterator[list[bytes]]:
    """Run a member in a thread during a block; the list receives what it handles."""
    handled: list[bytes] = []
    stopping = threading.Event()
    config = kafka.client_config(
        "kafka-python", group_id="g", session_timeout_ms=SESSION_MS, client_id=instance_id
    )
    arguments = (config, "t", instance_id, handled.append, stopping.is_set)
    thread = threading.Thread(target=run, args=arguments)
    thread.start()
    try:
        yield handled
    finally:
        stopping.set()
        thread.join(30)


def test_quick_restart_costs_no_rebalance(kafka: Broker) -> None:
    group = kafka.group("g")
    with member(kafka, "one"):
        with member(kafka, "two"):
            group.wait_stable(members=2).result.wait_assigned("t")
            generation = group.generation
            mine = [p for (_, p), owner in group.assignment.items() if owner.instance_id == "two"]
        kafka.requests.clear()
        with member(kafka, "two"):
            kafka.produce("t", "a", partition=mine[0])
            group.wait_committed()
            assert group.generation == generation
            assert kafka.requests.of("JoinGroup", client_id="two")


def test_restart_that_takes_too_long_moves_partitions(kafka: Broker) -> None:
    group = kafka.group("g")
    with member(kafka, "one"):
        with member(kafka, "two"):
            group.wait_stable(members=2).result.wait_assigned("t")
        # Nothing leaves until its session ends.
        assert len(group.members) == 2
        group.wait_stable(members=1).result.wait_assigned("t")
        assert {each.instance_id for each in group.assignment.values()} == {"one"}
        assert group.history[-1].trigger.cause == "session expiry"
