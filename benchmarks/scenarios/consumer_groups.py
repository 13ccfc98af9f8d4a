"""Consumer groups (KIP-848): many of one member, and one of a thousand in which one member joins.

The first row shows what keeping a group costs: resident memory afterwards. In the second one a
thousand members have a partition each; one more joins, and all send heartbeats at once, round after
round, until nothing is new. Clients do the same within two or three heartbeat intervals.
"""

from __future__ import annotations

import asyncio
from statistics import median

from benchmarks.consumer_member import ConsumerMember
from benchmarks.measures import (
    GENERATOR_BUSY,
    MICROSECONDS,
    MILLISECONDS,
    PEAK_RSS_MIB,
    RSS_MIB,
    Metric,
    Outcome,
    Row,
    Scenario,
    known,
    per_unit_of_cpu,
)
from benchmarks.member import CONNECT_BATCH
from benchmarks.processes import Stretch, Usage, peak_rss_mib, reset_peak_rss, rss_mib
from benchmarks.session import TOPIC, Conversation, Job, Session, connect

CONNECTIONS = 32
GROUPS = 5_000
GROUPS_QUICK = 500
MEMBERS = 1_000
MEMBERS_QUICK = 100
REPEATS = 5
# More than the interval between two target assignments, a second by default.
ASSIGNMENT_INTERVAL_S = 1.1
# A group that is not at rest after so many rounds never will be.
MOST_ROUNDS = 20

CPU_US_PER_GROUP = Metric("cpu_us_per_group", "CPU\nµs/group", 1)
CPU_MS_PER_JOIN = Metric("cpu_ms_per_join", "CPU ms/\njoin", 1)
ROUNDS = Metric("rounds", "rounds", 0)


async def run(job: Job, row: Row) -> Outcome:
    """Measure one of the rows."""
    session = await Session.open(job)
    reset_peak_rss(job.pid)
    measure = _create if row.key == "creation" else _admit
    numbers, usage, members = await measure(session)
    numbers |= known(
        rss_mib=rss_mib(job.pid),
        peak_rss_mib=peak_rss_mib(job.pid),
        generator_busy_percent=100 * usage.generator_cpu_s / usage.seconds,
    )
    await session.dissolve([(member.group, member.member_id) for member in members])
    session.close()
    return Outcome(numbers, {}, usage.others_share, session.requests.versions())


_Measured = tuple[dict[str, float], Usage, list[ConsumerMember]]


async def _create(session: Session) -> _Measured:
    """Create groups of one member, one after the other on each connection."""
    job, members = session.job, []
    numbers = iter(range(GROUPS_QUICK if job.quick else GROUPS))

    async def found(conversation: Conversation) -> None:
        for number in numbers:
            member = ConsumerMember(session, conversation, session.group_name(number))
            await member.join(TOPIC)
            await member.settle()
            members.append(member)

    connections = await _connect(job, CONNECTIONS)
    stretch = Stretch(job.pid)
    await asyncio.gather(*map(found, connections))
    usage = stretch.end()
    cpu_us = per_unit_of_cpu(usage, len(members), MICROSECONDS)
    return known(cpu_us_per_group=cpu_us), usage, members


async def _admit(session: Session) -> _Measured:
    """Let one more member join a large group, and leave it, a few times."""
    job = session.job
    size = MEMBERS_QUICK if job.quick else MEMBERS
    topic, group = f"{TOPIC}-{size}", session.group_name(0)
    await session.create_topic(topic, partitions=size)
    *members, newcomer = [
        ConsumerMember(session, conversation, group, number)
        for number, conversation in enumerate(await _connect(job, size + 1))
    ]
    for member in members:
        await member.join(topic)
    rounds, usages = [], []
    for _ in range(REPEATS):
        await asyncio.sleep(ASSIGNMENT_INTERVAL_S)
        await _settle(members)
        await asyncio.sleep(ASSIGNMENT_INTERVAL_S)
        stretch = Stretch(job.pid)
        newcomer.epoch = 0
        await newcomer.join(topic)
        # The round in which nothing is new is not needed.
        rounds.append(await _settle([*members, newcomer]) - 1)
        usages.append(stretch.end())
        await newcomer.leave()
    cpu_ms = [per_unit_of_cpu(usage, 1, MILLISECONDS) for usage in usages]
    known_ms = [each for each in cpu_ms if each is not None]
    numbers = known(rounds=median(rounds), cpu_ms_per_join=median(known_ms) if known_ms else None)
    return numbers, usages[-1], members


async def _settle(members: list[ConsumerMember]) -> int:
    """Let all send heartbeats at once until nothing is new; return how often they did.

    Raises:
        ConnectionError: the group does not come to rest.
    """
    for count in range(1, MOST_ROUNDS):
        news = await asyncio.gather(*(member.beat() for member in members))
        if not any(news):
            return count
    raise ConnectionError(f"{members[0].group!r} does not come to rest")


async def _connect(job: Job, count: int) -> list[Conversation]:
    connections: list[Conversation] = []
    for first in range(0, count, CONNECT_BATCH):
        batch = range(first, min(count, first + CONNECT_BATCH))
        connections += await asyncio.gather(*(connect(job) for _ in batch))
    return connections


SCENARIO = Scenario(
    key="consumer_groups",
    title="Consumer groups (KIP-848)",
    rows=(
        Row("creation", "5,000 groups (quick: 500) of one member", {RSS_MIB.key: 70.0}),
        Row(
            "join",
            "one more joins 1,000 members (quick: 100) with 1,000 partitions",
            {ROUNDS.key: 2.0, CPU_MS_PER_JOIN.key: 60.0},
        ),
    ),
    metrics=(CPU_US_PER_GROUP, ROUNDS, CPU_MS_PER_JOIN, RSS_MIB, PEAK_RSS_MIB, GENERATOR_BUSY),
    primary=RSS_MIB,
    run=run,
)
