"""Records in and out: Produce of batches of two sizes, and Fetch in large answers.

Four connections, each with a partition of its own and five requests in flight. Produced batches
have records of 100 bytes and fill 16 KiB, as librdkafka's do when it lingers little, or 500 KiB.
Fetches read the same MiB of the log again and again, so it comes from memory. A megabyte is 10^6
bytes of record batches.
"""

from __future__ import annotations

import time

from benchmarks import bulk, stable_members
from benchmarks.measures import (
    GENERATOR_BUSY,
    MILLISECONDS,
    PEAK_RSS_MIB,
    Metric,
    Outcome,
    Row,
    Scenario,
)
from benchmarks.processes import peak_rss_mib, reset_peak_rss
from benchmarks.session import Conversation, Job, Session
from benchmarks.steady import Ring, Shape, load
from coterie.protocol.api_keys import ApiKey
from coterie.protocol.records import encode_batch

_MEGABYTE = 1e6
_SHAPE = Shape(connections=4, in_flight=5)
_RECORD_BYTES = 100
# A record of 100 bytes takes about seven more in its batch.
_RECORD_IN_BATCH_BYTES = 107
_BATCH_BYTES = {"small": 16 * 1024, "large": 500 * 1024}
# What one Fetch asks for, and what the partition holds at least.
_FETCH_BYTES = 1 << 20
_STORED_BATCHES = 80

MB_PER_S = Metric("mb_per_s", "MB/s", 0, more_is_better=True)
CPU_MS_PER_MB = Metric("cpu_ms_per_mb", "CPU\nms/MB", 2)


def batch_of(size_bytes: int) -> bytes:
    """Return a batch of about this size, with records of 100 bytes."""
    now_ms = int(time.time() * 1000)
    count = size_bytes // _RECORD_IN_BATCH_BYTES
    return encode_batch([(b"", b"%0100d" % number) for number in range(count)], 0, now_ms)


async def run(job: Job, row: Row) -> Outcome:
    """Measure one row."""
    session = await Session.open(job)
    topic = f"bench-data-{job.tag}"
    await session.create_topic(topic, _SHAPE.connections)
    try:
        if row.key == "fetch":
            return await _fetch(job, session, topic)
        return await _produce(job, session, topic, batch_of(_BATCH_BYTES[row.key]))
    finally:
        session.close()


async def _produce(job: Job, session: Session, topic: str, batch: bytes) -> Outcome:
    agreed = session.requests.agreed(ApiKey.PRODUCE)

    async def ring_for(number: int, conversation: Conversation) -> Ring:
        frame = session.requests.produce(topic, number, batch)
        # Every response has another base offset.
        return Ring(agreed, [frame], await conversation.exchange(frame), varies=True)

    reset_peak_rss(job.pid)
    steady = await load(job, _SHAPE, ring_for)
    outcome = stable_members.outcome_of(job, steady, session.requests.versions())
    numbers = outcome.numbers
    megabytes = len(batch) / _MEGABYTE
    numbers[MB_PER_S.key] = numbers["requests_per_s"] * megabytes
    if "cpu_us_per_request" in numbers:
        numbers[CPU_MS_PER_MB.key] = numbers["cpu_us_per_request"] / 1e3 / megabytes
    return outcome


async def _fetch(job: Job, session: Session, topic: str) -> Outcome:
    batch = batch_of(_BATCH_BYTES["small"])

    async def frame_for(number: int, conversation: Conversation) -> bytes:
        for _ in range(_STORED_BATCHES):
            produced = await conversation.exchange(session.requests.produce(topic, number, batch))
            session.requests.check(ApiKey.PRODUCE, produced)
        frame = session.requests.fetch(topic, number, _FETCH_BYTES)
        session.requests.check(ApiKey.FETCH, await conversation.exchange(frame))
        return frame

    reset_peak_rss(job.pid)
    done = await bulk.load(job, _SHAPE, frame_for)
    usage = done.usage
    megabytes = done.answered_bytes / _MEGABYTE
    numbers = {
        MB_PER_S.key: megabytes / usage.seconds,
        GENERATOR_BUSY.key: 100 * usage.generator_cpu_s / usage.seconds,
    }
    if usage.server_cpu_s is not None and megabytes:
        numbers[CPU_MS_PER_MB.key] = usage.server_cpu_s * MILLISECONDS / megabytes
    peak = peak_rss_mib(job.pid)
    if peak is not None:
        numbers[PEAK_RSS_MIB.key] = peak
    return Outcome(numbers, {}, usage.others_share, session.requests.versions())


SCENARIO = Scenario(
    key="data_plane",
    title="Records of 100 bytes, 4 connections x 5 requests",
    rows=(
        Row("small", "Produce, batches of 16 KiB"),
        Row("large", "Produce, batches of 500 KiB"),
        Row("fetch", "Fetch, answers of 1 MiB"),
    ),
    metrics=(CPU_MS_PER_MB, MB_PER_S, PEAK_RSS_MIB, GENERATOR_BUSY),
    primary=CPU_MS_PER_MB,
    run=run,
)
