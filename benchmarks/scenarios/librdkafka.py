"""Records in and out through librdkafka, as applications do it: confluent-kafka in the generator.

The producer fills its own batches; its queue is kept full. The consumer reads what was produced
before the measured time, again and again. A megabyte is 10^6 bytes of values.
"""

from __future__ import annotations

import asyncio
import time
from typing import NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.measures import (
    GENERATOR_BUSY,
    MILLISECONDS,
    PEAK_RSS_MIB,
    Metric,
    Outcome,
    Row,
    Scenario,
    known,
    per_unit_of_cpu,
)
from benchmarks.processes import Stretch, peak_rss_mib, reset_peak_rss
from benchmarks.session import Job, Session

_PARTITIONS = 4
_LIMIT_S = 30
_MEGABYTE = 1e6
# What the consumer reads, in each partition.
_STORED_BYTES = 4 << 20
_CONSUMED_AT_ONCE = 5000

MB_PER_S = Metric("mb_per_s", "MB/s", 1, more_is_better=True)
CPU_MS_PER_MB = Metric("cpu_ms_per_mb", "CPU\nms/MB", 2)


class _Kind(NamedTuple):
    """What a row sends: the size of values, the acknowledgements, and how."""

    value_bytes: int
    acks: str
    idempotent: bool = False


_PRODUCED = {
    "100-one": _Kind(100, "1"),
    "100-all": _Kind(100, "all"),
    "100-idempotent": _Kind(100, "all", idempotent=True),
    "1000-one": _Kind(1000, "1"),
    "1000-all": _Kind(1000, "all"),
    "1000-idempotent": _Kind(1000, "all", idempotent=True),
}
_CONSUMED = {"fetch-100": 100, "fetch-1000": 1000}


async def run(job: Job, row: Row) -> Outcome:
    """Measure one row."""
    session = await Session.open(job)
    topic = f"bench-librdkafka-{row.key}-{job.tag}"
    await session.create_topic(topic, _PARTITIONS)
    session.close()
    work = _consume if row.key in _CONSUMED else _produce
    return await asyncio.to_thread(work, job, row, topic)


def _producer(job: Job, kind: _Kind) -> Producer:
    return Producer(
        {
            "bootstrap.servers": f"{job.host}:{job.port}",
            "acks": kind.acks,
            "enable.idempotence": kind.idempotent,
            "linger.ms": 5,
        }
    )


def _send(producer: Producer, topic: str, value: bytes, until: float, most: int) -> int:
    """Send as fast as the queue takes it; return how many records were acknowledged."""
    sent = 0
    while sent < most and time.perf_counter() < until:
        try:
            producer.produce(topic, value, partition=sent % _PARTITIONS)
            sent += 1
        except BufferError:
            producer.poll(0.01)
    left = producer.flush(_LIMIT_S)
    if left:
        raise ConnectionError(f"{left} records were not acknowledged")
    return sent


def _produce(job: Job, row: Row, topic: str) -> Outcome:
    kind = _PRODUCED[row.key]
    producer = _producer(job, kind)
    value = bytes(kind.value_bytes)
    _send(producer, topic, value, time.perf_counter() + job.settle_s, 1 << 30)
    reset_peak_rss(job.pid)
    stretch = Stretch(job.pid)
    sent = _send(producer, topic, value, time.perf_counter() + job.duration_s, 1 << 30)
    return _outcome(job, stretch, sent * kind.value_bytes)


def _consume(job: Job, row: Row, topic: str) -> Outcome:
    value_bytes = _CONSUMED[row.key]
    stored = _STORED_BYTES // value_bytes * _PARTITIONS
    kind = _Kind(value_bytes, "all")
    _send(_producer(job, kind), topic, bytes(value_bytes), time.perf_counter() + _LIMIT_S, stored)
    consumer = Consumer(
        {
            "bootstrap.servers": f"{job.host}:{job.port}",
            "group.id": topic,
            "enable.auto.commit": False,
        }
    )
    start = [TopicPartition(topic, each, 0) for each in range(_PARTITIONS)]
    read = 0
    try:
        _read_once(consumer, start, stored)
        reset_peak_rss(job.pid)
        stretch = Stretch(job.pid)
        until = time.perf_counter() + job.duration_s
        while time.perf_counter() < until:
            read += _read_once(consumer, start, stored)
        return _outcome(job, stretch, read * value_bytes)
    finally:
        consumer.close()


def _read_once(consumer: Consumer, start: list[TopicPartition], stored: int) -> int:
    """Read all records from the start of the partitions; return how many there were."""
    consumer.assign(start)
    read, give_up = 0, time.perf_counter() + _LIMIT_S
    while read < stored:
        read += len(consumer.consume(_CONSUMED_AT_ONCE, 0.1))
        if time.perf_counter() > give_up:
            raise ConnectionError(f"{read} of {stored} records were read within {_LIMIT_S} s")
    return read


def _outcome(job: Job, stretch: Stretch, size_bytes: int) -> Outcome:
    usage = stretch.end()
    peak = peak_rss_mib(job.pid)
    megabytes = size_bytes / _MEGABYTE
    cpu_ms = per_unit_of_cpu(usage, 1, MILLISECONDS)
    numbers = known(
        cpu_ms_per_mb=None if cpu_ms is None else cpu_ms / megabytes,
        mb_per_s=megabytes / usage.seconds,
        peak_rss_mib=peak,
        generator_busy_percent=100 * usage.generator_cpu_s / usage.seconds,
    )
    return Outcome(numbers, {}, usage.others_share)


SCENARIO = Scenario(
    key="librdkafka",
    title="Records through librdkafka, 4 partitions",
    rows=(
        Row("100-one", "Produce, 100 bytes, acks=1"),
        Row("100-all", "Produce, 100 bytes, acks=all"),
        Row("100-idempotent", "Produce, 100 bytes, idempotent"),
        Row("1000-one", "Produce, 1,000 bytes, acks=1"),
        Row("1000-all", "Produce, 1,000 bytes, acks=all"),
        Row("1000-idempotent", "Produce, 1,000 bytes, idempotent"),
        Row("fetch-100", "Fetch, 100 bytes"),
        Row("fetch-1000", "Fetch, 1,000 bytes"),
    ),
    metrics=(CPU_MS_PER_MB, MB_PER_S, PEAK_RSS_MIB, GENERATOR_BUSY),
    primary=CPU_MS_PER_MB,
    run=run,
)
