"""Share groups (KIP-932): records of 1,000 bytes are acquired and acknowledged.

Four members read a partition each, in a closed loop. Every fetch acknowledges what the one before
has brought, as those of the Java client do. The topic is written beforehand in batches of sixteen
records, what the producer of Java makes of them. When all is read a new group begins at the start;
that it comes about is not measured.
"""

from __future__ import annotations

import asyncio
import time

from benchmarks.measures import (
    GENERATOR_BUSY,
    MICROSECONDS,
    PEAK_RSS_MIB,
    Metric,
    Outcome,
    Row,
    Scenario,
    known,
)
from benchmarks.processes import Stretch, Usage, peak_rss_mib, reset_peak_rss
from benchmarks.requests import Refused
from benchmarks.session import PATIENCE_S, RETRY_AFTER_S, Job, Session, connect
from benchmarks.share_member import ShareMember, ShareReader
from coterie.protocol.api_keys import ApiKey
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from coterie.protocol.records import encode_batch

_PARTITIONS = 4
_VALUE = b"x" * 1000
_RECORDS_PER_BATCH = 16
# Records of a partition that a group reads, and how many a fetch brings, by the row.
_READ = {"batches": (8_000, 500), "each": (1_000, 1)}
_QUICK_SHARE = 10
# The first version that tells the ids of topics.
_METADATA_VERSION = 10

CPU_US_PER_RECORD = Metric("cpu_us_per_record", "CPU\nµs/record", 2)
RECORDS_PER_S = Metric("records_per_s", "records/s", 0, more_is_better=True)


async def run(job: Job, row: Row) -> Outcome:
    """Measure a row."""
    session = await Session.open(job)
    records, at_once = _READ[row.key]
    if job.quick:
        records //= _QUICK_SHARE
    topic = f"bench-{row.key}-{job.tag}"
    await session.create_topic(topic, _PARTITIONS)
    await _write(session, topic, records)
    topic_id = await _topic_id(session, topic)
    reset_peak_rss(job.pid)
    usages: list[Usage] = []
    count, until = 0, time.perf_counter() + job.duration_s
    while not usages or time.perf_counter() < until:
        group = session.group_name(len(usages))
        conversations = [await connect(job) for _ in range(_PARTITIONS + 1)]
        member = ShareMember(session, conversations[0], group)
        await member.read_from_the_start()
        await member.join(topic, _PARTITIONS)
        readers = [
            ShareReader(session, conversation, group, topic_id, index)
            for index, conversation in enumerate(conversations[1:])
        ]
        stretch = Stretch(job.pid)
        counts = await asyncio.gather(*(reader.read(records, at_once) for reader in readers))
        usages.append(stretch.end())
        count += sum(counts)
        for conversation in conversations:
            conversation.transport.close()
    peak = peak_rss_mib(job.pid)
    session.close()
    seconds = sum(usage.seconds for usage in usages)
    servers = [usage.server_cpu_s for usage in usages]
    server_s = sum(each for each in servers if each is not None) if None not in servers else None
    numbers = known(
        cpu_us_per_record=None if server_s is None else server_s * MICROSECONDS / count,
        records_per_s=count / seconds,
        peak_rss_mib=peak,
        generator_busy_percent=100 * sum(usage.generator_cpu_s for usage in usages) / seconds,
    )
    return Outcome(numbers, {}, usages[-1].others_share, session.requests.versions())


async def _write(session: Session, topic: str, records: int) -> None:
    """Write records to each partition."""
    batch = encode_batch([(b"", _VALUE)] * _RECORDS_PER_BATCH, 0, int(time.time() * 1000))
    for index in range(_PARTITIONS):
        frame = session.requests.produce(topic, index, batch)
        written = 0
        deadline = time.monotonic() + PATIENCE_S
        while written < records:
            try:
                session.requests.check(ApiKey.PRODUCE, await session.control.exchange(frame))
            except Refused as refused:
                # New partitions of a real Kafka have no leader for a moment.
                passes = refused.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
                if not passes or time.monotonic() > deadline:
                    raise
                await asyncio.sleep(RETRY_AFTER_S)
            else:
                written += _RECORDS_PER_BATCH


async def _topic_id(session: Session, topic: str) -> bytes:
    agreed = session.requests.at(ApiKey.METADATA, _METADATA_VERSION)
    frame = agreed.frame(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]))
    response: MetadataResponse = agreed.response(await session.control.exchange(frame))
    return response.topics[0].topic_id


SCENARIO = Scenario(
    key="share_groups",
    title="Share groups (KIP-932): records of 1,000 bytes, acquired and acknowledged",
    rows=(
        Row("batches", "500 at a time"),
        Row("each", "record by record"),
    ),
    metrics=(CPU_US_PER_RECORD, RECORDS_PER_S, PEAK_RSS_MIB, GENERATOR_BUSY),
    primary=CPU_US_PER_RECORD,
    run=run,
)
