"""The names that examples in docs/testing.md and docs/cluster.md use: a service under test."""

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from operator import attrgetter
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError

from examples.shared_work.worker import run

__all__ = [
    "AIOKafkaConsumer",
    "hanging_worker",
    "pytest",
    "run_service",
    "running_service",
    "running_worker",
]

# A consumer of kafka-python that polls as briefly has to know its topic before it joins: see
# reading/starts-each-time in client_findings.tsv.
_POLL_MS = 50
_LIMIT_S = 20


@contextmanager
def running_service(bootstrap_servers: str) -> Iterator[None]:
    """Bill orders in a thread, until the end of the block."""
    is_over = threading.Event()

    def bill() -> None:
        producer = KafkaProducer(bootstrap_servers=bootstrap_servers)
        consumer = KafkaConsumer(
            "orders",
            bootstrap_servers=bootstrap_servers,
            group_id="billing",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        consumer.partitions_for_topic("orders")
        orders: list[Any] = []
        billed = 0
        while not is_over.is_set():
            orders += itertools.chain(*consumer.poll(timeout_ms=_POLL_MS).values())
            # A broker that is killed does not end the service.
            with suppress(KafkaError):
                # Bills are written in the order of the partitions, so all orders are read before.
                if len(orders) == sum(consumer.end_offsets(consumer.assignment()).values()):
                    for order in sorted(orders, key=attrgetter("partition"))[billed:]:
                        producer.send("bills", order.value).get(_LIMIT_S)
                    billed = len(orders)
                    consumer.commit()
        consumer.close()
        producer.close()

    thread = threading.Thread(target=bill, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join(_LIMIT_S)


@contextmanager
def running_worker(config: dict[str, Any]) -> Iterator[None]:
    """Handle orders but for poison in a thread, until the end of the block."""

    def handle(value: bytes) -> None:
        if value == b"poison":
            raise ValueError(value)

    with _working(config, handle, threading.Event()):
        yield


@contextmanager
def hanging_worker(config: dict[str, Any]) -> Iterator[None]:
    """Take orders in a thread, and handle none until the end of the block."""
    is_over = threading.Event()
    with _working(config, lambda _: is_over.wait(_LIMIT_S), is_over):
        yield


@contextmanager
def _working(
    config: dict[str, Any], handle: Callable[[bytes], object], is_over: threading.Event
) -> Iterator[None]:
    thread = threading.Thread(target=run, args=(config, "orders", handle, is_over.is_set))
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join(_LIMIT_S)


def run_service(
    bootstrap_servers: str = "", topic: str = "orders", group_id: str = "billing", **config: Any
) -> None:
    """Join a group, be assigned a topic, and leave."""
    if not bootstrap_servers:
        _run_confluent(topic, {"group.id": group_id, **config})
        return
    consumer = KafkaConsumer(topic, bootstrap_servers=bootstrap_servers, group_id=group_id)
    consumer.partitions_for_topic(topic)
    while not consumer.assignment():
        consumer.poll(timeout_ms=_POLL_MS)
    consumer.close()


def _run_confluent(topic: str, config: dict[str, Any]) -> None:
    consumer = Consumer(config)
    consumer.subscribe([topic])
    while not consumer.assignment():
        consumer.poll(_POLL_MS / 1000)
    consumer.close()
