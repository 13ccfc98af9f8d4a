"""Consumers that have joined and poll only when they are let: the members that others wait for."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import confluent_kafka
import kafka

_POLL_S = 0.1
# A busy machine may not let a client send a heartbeat for seconds.
LONG_SESSION_MS = 60_000


@contextmanager
def held(config: Mapping[str, Any], topic: str) -> Iterator[Any]:
    """A consumer of kafka-python that polls only when the block does."""
    consumer = kafka.KafkaConsumer(topic, **{**config, "session_timeout_ms": LONG_SESSION_MS})
    try:
        # Known before it joins: see reading/starts-each-time in client_findings.tsv.
        consumer.partitions_for_topic(topic)
        while not consumer.assignment():
            consumer.poll(100)
        yield consumer
    finally:
        consumer.close()


@contextmanager
def held_consumer(
    config: Mapping[str, Any], topic: str, partitions: int
) -> Iterator[Callable[[], None]]:
    """A consumer of KIP-848 with all partitions; it polls from the call of the function on."""
    consumer = confluent_kafka.Consumer({"log_level": 0, **config})
    consumer.subscribe([topic])
    while len(consumer.assignment()) < partitions:
        consumer.poll(_POLL_S)
    ended = threading.Event()

    def run() -> None:
        while not ended.is_set():
            consumer.poll(_POLL_S)

    thread = threading.Thread(target=run, name="held consumer")
    try:
        yield thread.start
    finally:
        ended.set()
        if thread.ident is not None:
            thread.join()
        consumer.close()
