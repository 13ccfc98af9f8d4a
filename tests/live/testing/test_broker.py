"""The broker of a test: its life, its topics, its data."""

import asyncio
import gc
import os
import threading
import time
from pathlib import Path

import pytest

from coterie.testing import Broker, KafkaTestCase, WrongUse
from tests.live.deadlines import eventually
from tests.live.testing.consumers import confluent, kafka_python

# Half of it is a goal; the other half is room for a busy machine.
READY_S = 0.2


def test_records_are_produced_and_read() -> None:
    with Broker(topics={"orders": 2}) as kafka:
        assert kafka.produce("orders", "a", b"b", key="k", headers=[("h", b"1")]) == 0
        assert kafka.produce("orders", None, key=b"k", partition=1, timestamp_ms=7) == 0
        first, second, tombstone = kafka.records("orders")
        assert (first.value, first.key, first.headers) == (b"a", b"k", (("h", b"1"),))
        assert (second.offset, second.value) == (1, b"b")
        assert (tombstone.partition, tombstone.value, tombstone.timestamp_ms) == (1, None, 7)
        assert kafka.records("orders", 1) == [tombstone]


def test_topic_is_created_with_records_in_turn() -> None:
    with Broker() as kafka:
        kafka.topic("t", partitions=2, records=["a", "b", "c"], config={"retention.ms": "60000"})
        assert kafka.topics == {"t": 2}
        assert [(each.partition, each.value) for each in kafka.records("t")] == [
            (0, b"a"), (0, b"c"), (1, b"b"),
        ]  # fmt: skip


@pytest.mark.kafka(features={"transaction.version": 1})
def test_features_are_chosen_and_changed(kafka: Broker) -> None:
    """[features/chosen-levels]"""
    assert kafka.features["transaction.version"] == 1
    kafka.set_features({"transaction.version": 0})
    kafka.restart()
    assert "transaction.version" not in kafka.features


def test_nothing_is_left_after_the_end() -> None:
    with Broker(topics={"t": 1}) as kafka, confluent(kafka, "g", "t"):
        kafka.group("g").wait_stable()
    gc.collect()
    threads, files = threading.active_count(), len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        with Broker(topics={"t": 1}) as kafka, confluent(kafka, "g", "t"):
            kafka.group("g").wait_stable()
        gc.collect()
    # Clients of earlier tests may still be ending, so there may be fewer.
    eventually(lambda: threading.active_count() <= threads, "no thread is left")
    eventually(lambda: len(os.listdir("/proc/self/fd")) <= files, "no file is left")


def test_broker_is_ready_and_closed_in_milliseconds() -> None:
    def is_quick() -> bool:
        began_s = time.perf_counter()
        with Broker(topics={"t": 3}):
            pass
        return time.perf_counter() - began_s < READY_S

    # One of many: the others may wait for a processor.
    eventually(is_quick, f"a broker that needs less than {READY_S} s")


@pytest.mark.parametrize("on_disk", [False, True], ids=["memory", "directory"])
@pytest.mark.parametrize("end", ["restart", "kill"])
def test_data_survive(end: str, on_disk: bool, tmp_path: Path) -> None:
    with Broker(topics={"t": 1}, data_dir=tmp_path if on_disk else None) as kafka:
        address = kafka.bootstrap_servers
        kafka.produce("t", "a", "b")
        with kafka_python(kafka, "g", "t", auto_commit_interval_ms=100) as values:
            group = kafka.group("g").wait_committed({("t", 0): 2}).result
            generation = group.generation
            getattr(kafka, end)()
            assert kafka.bootstrap_servers == address
            kafka.produce("t", "c")
            group.wait_committed({("t", 0): 3})
            assert group.state == "Stable"
            assert group.generation >= generation
        assert values == [b"a", b"b", b"c"]
        assert [each.value for each in kafka.records("t")] == values


def test_clock_of_the_broker_is_put_forward() -> None:
    week_s = 7 * 24 * 3600
    with Broker(topics={"t": 1}) as kafka:
        group = kafka.group("g")
        with confluent(
            kafka, "g", "t", group_instance_id="i", auto_commit_interval_ms=100
        ) as values:
            kafka.produce("t", "a")
            group.wait_committed({("t", 0): 1})
        assert values == [b"a"]
        # A static member stays until its session ends.
        assert len(group.members) == 1
        kafka.advance(7)
        group.wait_empty()
        assert group.history[-1].trigger.cause == "session expiry"
        kafka.advance(week_s)
        kafka.advance(3600)
        eventually(lambda: group.offsets == {}, "the offsets expired")
        # Retention is a week, too.
        eventually(lambda: kafka.records("t") == [], "the record deleted")
        kafka.restart()
        assert kafka.produce("t", "b") == 1
        with pytest.raises(WrongUse, match="from 0 to"):
            kafka.advance(-1)


def test_broker_in_a_coroutine() -> None:
    async def run() -> None:
        async with Broker(topics={"t": 1}) as kafka:
            waiting = kafka.group("g").wait_empty()
            assert await waiting is waiting.result

    asyncio.run(run())


class TestCase(KafkaTestCase):
    """A unittest with a broker."""

    kafka_topics = {"t": 2}
    kafka_config = {"group.max.size": "1"}

    def test_broker_has_topics(self) -> None:
        assert self.kafka.topics == {"t": 2}
