"""Fetches of a consumer with 1,000 partitions in which nothing happens, with and without a session.

Without a fetch session every request names all partitions and every response answers all of them.
With one (KIP-227) requests and responses are empty. Every request may wait for nothing, so the
broker does the work at once.
"""

from __future__ import annotations

import asyncio
import time
from array import array

from benchmarks.measures import (
    CPU_US,
    GENERATOR_BUSY,
    MICROSECONDS,
    P50_US,
    P99_US,
    PEAK_RSS_MIB,
    REQUESTS_PER_S,
    Outcome,
    Row,
    Scenario,
    known,
    per_unit_of_cpu,
    percentile,
)
from benchmarks.processes import Stretch, peak_rss_mib, reset_peak_rss
from benchmarks.requests import AgreedApi, Refused, first_error
from benchmarks.session import PATIENCE_S, RETRY_AFTER_S, Conversation, Job, Session, connect
from coterie.protocol.api_keys import ApiKey
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.fetch import (
    FetchRequest,
    FetchRequestPartition,
    FetchRequestTopic,
    FetchResponse,
)

PARTITIONS = 1000
QUICK_PARTITIONS = 100
_PARTITION_BYTES = 1 << 20
_SESSIONLESS_EPOCH, _FIRST_EPOCH = -1, 0


async def run(job: Job, row: Row) -> Outcome:
    """Measure one row: one consumer in a closed loop."""
    session = await Session.open(job)
    topic = f"bench-idle-{row.key}-{job.tag}"
    partitions = QUICK_PARTITIONS if job.quick else PARTITIONS
    await session.create_topic(topic, partitions)
    agreed = session.requests.agreed(ApiKey.FETCH)
    conversation = await connect(job)
    has_session = row.key == "session"
    full = _request(topic, partitions, 0, _FIRST_EPOCH if has_session else _SESSIONLESS_EPOCH)
    first = await _fetch(agreed, conversation, full)
    epoch, latencies = 1, array("d")
    frame = agreed.frame(full)
    # Once more before the measured time: logs are opened by their first fetch.
    until = time.perf_counter() + job.settle_s
    stretch: Stretch | None = None
    while True:
        began = time.perf_counter()
        if began >= until:
            if stretch is not None:
                break
            reset_peak_rss(job.pid)
            stretch, until = Stretch(job.pid), time.perf_counter() + job.duration_s
            latencies = array("d")
        if has_session:
            frame = agreed.frame(_request(topic, 0, first.session_id, epoch))
            epoch += 1
        await conversation.exchange(frame)
        latencies.append(time.perf_counter() - began)
    usage = stretch.end()
    peak = peak_rss_mib(job.pid)
    conversation.transport.close()
    session.close()
    ordered = sorted(latencies)
    numbers = known(
        cpu_us_per_request=per_unit_of_cpu(usage, len(ordered), MICROSECONDS),
        requests_per_s=len(ordered) / usage.seconds,
        p50_us=percentile(ordered, 0.50) * MICROSECONDS,
        p99_us=percentile(ordered, 0.99) * MICROSECONDS,
        peak_rss_mib=peak,
        generator_busy_percent=100 * usage.generator_cpu_s / usage.seconds,
    )
    return Outcome(numbers, {}, usage.others_share, session.requests.versions())


async def _fetch(
    agreed: AgreedApi, conversation: Conversation, request: FetchRequest
) -> FetchResponse:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        answer = await conversation.exchange(agreed.frame(request))
        response: FetchResponse = agreed.response(answer)
        code = first_error(response)
        if not code:
            return response
        # New partitions of a real Kafka have no leader for a moment.
        if code != ErrorCode.NOT_LEADER_OR_FOLLOWER or time.monotonic() > deadline:
            raise Refused(ApiKey.FETCH, code)
        await asyncio.sleep(RETRY_AFTER_S)


def _request(topic: str, partitions: int, session_id: int, session_epoch: int) -> FetchRequest:
    """Return a request that waits for nothing, and names this many partitions."""
    named = [
        FetchRequestPartition(partition=each, fetch_offset=0, partition_max_bytes=_PARTITION_BYTES)
        for each in range(partitions)
    ]
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=[FetchRequestTopic(topic=topic, partitions=named)] if named else [],
    )


SCENARIO = Scenario(
    key="idle_sessions",
    title="Fetches of 1,000 idle partitions",
    rows=(Row("sessionless", "without a session"), Row("session", "with a session (KIP-227)")),
    metrics=(CPU_US, REQUESTS_PER_S, P50_US, P99_US, PEAK_RSS_MIB, GENERATOR_BUSY),
    primary=CPU_US,
    run=run,
)
