"""Acknowledgements with `--flush commit`: nothing is answered before it survives a loss of power.

Commits in a closed loop, by 16 and by 256 stable members, whose groups are all in one partition of
`__consumer_offsets` or spread over its 50 partitions; creation of groups; Produce of one small
batch to each of 50 partitions. Each row starts a server of its own.

The figures depend on the disk and on the time that a thread waits for a CPU when its sync is done,
so compare only rows of one run, or two versions in turns.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from itertools import count, cycle, islice

from benchmarks import stable_members
from benchmarks.brokers import coterie
from benchmarks.measures import (
    CPU_US,
    GENERATOR_BUSY,
    P50_US,
    P99_US,
    PEAK_RSS_MIB,
    REQUESTS_PER_S,
    Outcome,
    Row,
    Scenario,
)
from benchmarks.processes import reset_peak_rss
from benchmarks.scenarios import group_creation, offset_commit
from benchmarks.scenarios.background import wait_until_loaded
from benchmarks.session import Conversation, Job, Session, group_name
from benchmarks.steady import Ring, Shape, load
from coterie.protocol.api_keys import ApiKey
from coterie.protocol.java_hash import partition_for
from coterie.protocol.records import encode_batch

# Of __consumer_offsets, by default; and of the topic for Produce.
PARTITIONS = 50
PRODUCERS = 100
_PRODUCED = "bench-produced"
_VALUE = bytes(100)
_COMMITS = {
    "one-16": (1, 16),
    "one-256": (1, 256),
    "all-16": (PARTITIONS, 16),
    "all-256": (PARTITIONS, 256),
}


async def run(job: Job, row: Row) -> Outcome:
    """Start a server and measure one row."""
    server = coterie(flush="commit")
    running = await asyncio.to_thread(server.start)
    try:
        address = running.address
        job = replace(job, host=address.host, port=address.port, pid=address.pid)
        await asyncio.to_thread(wait_until_loaded, f"{address.host}:{address.port}")
        if row.key == "groups":
            outcome = await group_creation.run(job, row)
            numbers = outcome.numbers
            numbers[REQUESTS_PER_S.key] = numbers["groups_per_s"]
            if "cpu_us_per_group" in numbers:
                numbers[CPU_US.key] = numbers["cpu_us_per_group"]
            return outcome
        if row.key == "produce":
            return await _produce(job)
        partitions, connections = _COMMITS[row.key]
        return await stable_members.measure(
            job,
            row,
            offset_commit.prepare,
            shape=Shape(connections, 1),
            numbers=list(islice(_group_numbers(job, partitions), connections)),
        )
    finally:
        await asyncio.to_thread(server.stop)


def _group_numbers(job: Job, partitions: int) -> Iterator[int]:
    """Yield the numbers of groups that are spread evenly over the first `partitions` partitions."""
    found: list[deque[int]] = [deque() for _ in range(PARTITIONS)]
    numbers = count()
    for partition in cycle(range(partitions)):
        while not found[partition]:
            number = next(numbers)
            found[partition_for(group_name(job, number), PARTITIONS)].append(number)
        yield found[partition].popleft()


async def _produce(job: Job) -> Outcome:
    session = await Session.open(job)
    await session.create_topic(_PRODUCED, PARTITIONS)
    agreed = session.requests.agreed(ApiKey.PRODUCE)
    now_ms = int(time.time() * 1000)

    async def ring_for(number: int, conversation: Conversation) -> Ring:
        batch = encode_batch([(b"key", _VALUE)], 0, now_ms)
        frame = session.requests.produce(_PRODUCED, number % PARTITIONS, batch)
        # Every response has another base offset.
        return Ring(agreed, [frame], await conversation.exchange(frame), varies=True)

    reset_peak_rss(job.pid)
    steady = await load(job, Shape(PRODUCERS, 1), ring_for)
    outcome = stable_members.outcome_of(job, steady, session.requests.versions())
    session.close()
    return outcome


SCENARIO = Scenario(
    key="durable",
    title="Acknowledged with --flush commit, closed loop (a request is a commit, group or batch)",
    rows=(
        Row("one-16", "commits, 1 partition, 16 connections"),
        Row("one-256", "commits, 1 partition, 256 connections"),
        Row("all-16", f"commits, {PARTITIONS} partitions, 16 connections"),
        Row("all-256", f"commits, {PARTITIONS} partitions, 256 connections"),
        Row("groups", f"groups created, {PARTITIONS} partitions, 32 connections"),
        Row("produce", f"Produce, {PARTITIONS} partitions, {PRODUCERS} connections"),
    ),
    metrics=(REQUESTS_PER_S, CPU_US, P50_US, P99_US, PEAK_RSS_MIB, GENERATOR_BUSY),
    primary=REQUESTS_PER_S,
    run=run,
    brokerless=True,
)
