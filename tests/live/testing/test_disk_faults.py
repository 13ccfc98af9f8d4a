"""Disks that are full, slow, or lose what was not synced: what clients see, and what is left."""

import asyncio
import time
from pathlib import Path

import confluent_kafka
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from kafka import KafkaProducer
from kafka.errors import KafkaError

from coterie.testing import Broker, BrokerNotStarted, DiskFull, SlowDisk, WrongUse
from tests.live.deadlines import GENEROUS_S, eventually
from tests.live.testing.consumers import confluent, kafka_python

PLACES = pytest.mark.parametrize("on_disk", [False, True], ids=["memory", "directory"])


def place(tmp_path: Path, *, on_disk: bool) -> Path | None:
    return tmp_path if on_disk else None


@PLACES
def test_producer_goes_on_when_the_disk_has_room_again(on_disk: bool, tmp_path: Path) -> None:
    with Broker(topics={"t": 1, "u": 1}, data_dir=place(tmp_path, on_disk=on_disk)) as kafka:
        config = kafka.client_config("confluent-kafka", retry_backoff_ms=50)
        producer = confluent_kafka.Producer({"log_level": 0, **config})
        reports: list[confluent_kafka.KafkaError | None] = []
        with kafka.fault(DiskFull(), topic="t") as full:
            producer.produce("t", b"a", on_delivery=lambda error, _: reports.append(error))
            eventually(lambda: (producer.poll(0.05), full.hits)[1], "a write to the full disk")
            # Other partitions can be written.
            assert kafka.produce("u", "b") == 0
        # As with Kafka the partition is offline until the broker is started again.
        with pytest.raises(WrongUse, match="KAFKA_STORAGE_ERROR"):
            kafka.produce("t", "c")
        assert reports == []
        kafka.restart()
        assert producer.flush(GENEROUS_S) == 0
        assert reports == [None]
        assert [each.value for each in kafka.records("t")] == [b"a"]


def test_kafka_python_reports_that_the_disk_is_full() -> None:
    with Broker(topics={"t": 1}) as kafka, kafka.fault(DiskFull(), topic="t") as full:
        config = kafka.client_config("kafka-python", retries=0, enable_idempotence=False)
        producer = KafkaProducer(**config)
        with pytest.raises(KafkaError, match="KafkaStorage"):
            producer.send("t", b"a").get(GENEROUS_S)
        producer.close()
        full.must_have_hit(1)


def test_group_cannot_commit_while_its_disk_is_full() -> None:
    with (
        Broker(topics={"t": 1}) as kafka,
        kafka_python(kafka, "g", "t", auto_commit_interval_ms=100) as values,
    ):
        group = kafka.group("g").wait_assigned().result
        with kafka.fault(DiskFull()) as full:
            eventually(lambda: full.hits > 0, "a write to the full disk")
        kafka.restart()
        kafka.produce("t", "a")
        group.wait_committed({("t", 0): 1})
        assert values == [b"a"]


def test_broker_does_not_start_on_a_full_disk() -> None:
    with Broker() as kafka:
        with kafka.fault(DiskFull()), pytest.raises(BrokerNotStarted, match="No space left"):
            kafka.restart()
        with pytest.raises(BrokerNotStarted, match="does not run"):
            _ = kafka.topics


def test_slow_sync_delays_what_waits_for_it() -> None:
    async def run() -> None:
        async with Broker(topics={"t": 1}, flush="commit") as kafka, kafka.virtual_time() as clock:
            config = kafka.client_config("aiokafka", client_id="p")
            async with AIOKafkaProducer(**config) as producer:
                await producer.send_and_wait("t", b"a")
                began_s = clock.elapsed_s
                with kafka.fault(SlowDisk(20), times=1) as slow:
                    await producer.send_and_wait("t", b"b")
                assert clock.elapsed_s - began_s == pytest.approx(20, abs=0.1)
                slow.must_have_hit(1)
                await producer.send_and_wait("t", b"c")
                assert clock.elapsed_s - began_s == pytest.approx(20, abs=0.2)

    asyncio.run(run())


def test_slow_sync_delays_blocking_clients_too(tmp_path: Path) -> None:
    with Broker(topics={"t": 1}, flush="commit", data_dir=tmp_path) as kafka:
        producer = KafkaProducer(**kafka.client_config("kafka-python"))
        producer.send("t", b"a").get(GENEROUS_S)
        with kafka.fault(SlowDisk(0.4)):
            began_s = time.monotonic()
            producer.send("t", b"b").get(GENEROUS_S)
            assert time.monotonic() - began_s >= 0.4
        producer.close()


@PLACES
def test_lost_power_loses_what_was_not_synced(on_disk: bool, tmp_path: Path) -> None:
    with Broker(data_dir=place(tmp_path, on_disk=on_disk)) as kafka:
        kafka.topic("t", records=["a", "b"])
        kafka.flush()
        kafka.produce("t", "c")
        kafka.topic("u", records=["d"])
        kafka.lose_power()
        assert [each.value for each in kafka.records("t")] == [b"a", b"b"]
        assert kafka.records("u") == []
        assert kafka.produce("t", "e") == 2
        kafka.restart()
        kafka.lose_power()
        assert [each.value for each in kafka.records("t")] == [b"a", b"b", b"e"]


def test_synced_commits_survive_a_loss_of_power() -> None:
    with Broker(flush="commit") as kafka:
        kafka.topic("t", records=["a", "b"])
        with confluent(kafka, "g", "t", auto_commit_interval_ms=100):
            kafka.group("g").wait_committed({("t", 0): 2})
            kafka.lose_power()
            assert [each.value for each in kafka.records("t")] == [b"a", b"b"]
            assert kafka.group("g").offsets == {("t", 0): 2}


def test_consumer_reads_again_after_its_commit_was_lost() -> None:
    async def run() -> None:
        async with Broker(topics={"t": 1}) as kafka, kafka.virtual_time():
            kafka.produce("t", "a", "b")
            kafka.flush()
            config = kafka.client_config("aiokafka", group_id="g", enable_auto_commit=False)
            async with AIOKafkaConsumer("t", **config) as consumer:
                await consumer.getmany(timeout_ms=1000)
                await consumer.commit()
                assert kafka.group("g").offsets == {("t", 0): 2}
            await kafka.lose_power()
            assert kafka.group("g").offsets == {}
            async with AIOKafkaConsumer("t", **config) as consumer:
                assert (await consumer.getone()).value == b"a"

    asyncio.run(run())


def test_consumer_ahead_of_the_log_is_out_of_range() -> None:
    async def run() -> None:
        async with Broker(topics={"t": 1}) as kafka, kafka.virtual_time():
            config = kafka.client_config("aiokafka", group_id="g", metadata_max_age_ms=1_000)
            async with AIOKafkaConsumer("t", **config) as consumer:
                kafka.produce("t", "a", "b")
                assert (await consumer.getone()).value == b"a"
                assert (await consumer.getone()).value == b"b"
                await kafka.lose_power()
                kafka.produce("t", "c")
                # auto_offset_reset is "earliest".
                assert (await consumer.getone()).value == b"c"

    asyncio.run(run())
