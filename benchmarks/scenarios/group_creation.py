"""Creation of 5,000 groups of one member: JoinGroup, JoinGroup with the id, SyncGroup.

32 connections create groups one after the other. This shows the cost of creating a group (its
state, its timers, two records in the log) and of keeping it: resident memory afterwards. Leaving
and deleting the groups, on a broker that keeps running, is not measured here.
"""

from __future__ import annotations

import asyncio
import time

from benchmarks.measures import (
    GENERATOR_BUSY,
    MICROSECONDS,
    PEAK_RSS_MIB,
    RSS_MIB,
    Metric,
    Outcome,
    Row,
    Scenario,
    known,
    per_unit_of_cpu,
    percentile,
)
from benchmarks.member import Member, Watcher, connect_members
from benchmarks.processes import Stretch, peak_rss_mib, reset_peak_rss, rss_mib
from benchmarks.requests import Assignments, assignments
from benchmarks.session import TOPIC, Job, Session
from coterie.protocol.messages.join_group import JoinGroupResponse

CONNECTIONS = 32
GROUPS = 5_000
GROUPS_QUICK = 500
TIMEOUT_S = 60.0

CPU_US_PER_GROUP = Metric("cpu_us_per_group", "CPU\nµs/group", 1)
GROUPS_PER_S = Metric("groups_per_s", "groups/s", 0, more_is_better=True)
P50_US = Metric("p50_us", "p50\nµs/group", 0)
P99_US = Metric("p99_us", "p99\nµs/group", 0)


class Founders(Watcher):
    """Creates all groups of a list; each member goes on to the next group as soon as it synced."""

    def __init__(self, groups: list[tuple[str, bytes]]) -> None:
        self.finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._groups = iter(groups)
        self._missing = len(groups)
        self._began: dict[Member, float] = {}
        self.latencies_s: list[float] = []
        self.created: list[tuple[str, str]] = []

    def next_group(self, member: Member) -> None:
        """Let a member create the next group, if there is one left."""
        found = next(self._groups, None)
        if found is not None:
            self._began[member] = time.perf_counter()
            member.enter(*found)

    def leads(self, member: Member, response: JoinGroupResponse) -> Assignments:
        return assignments([member.member_id], TOPIC)

    def synced(self, member: Member) -> None:
        self.latencies_s.append(time.perf_counter() - self._began[member])
        self.created.append((member.group, member.member_id))
        self._missing -= 1
        if self._missing == 0:
            self.finished.set_result(None)
        else:
            self.next_group(member)

    def failed(self, error: Exception) -> None:
        if not self.finished.done():
            self.finished.set_exception(error)


async def run(job: Job, row: Row) -> Outcome:
    """Create the groups and measure."""
    session = await Session.open(job)
    names = [session.group_name(i) for i in range(GROUPS_QUICK if job.quick else GROUPS)]
    founders = Founders([(name, session.requests.join_group(name, "", TOPIC)) for name in names])
    members = await connect_members(job, session.requests, founders, CONNECTIONS)
    reset_peak_rss(job.pid)
    stretch = Stretch(job.pid)
    for member in members:
        founders.next_group(member)
    await asyncio.wait_for(founders.finished, TIMEOUT_S)
    usage = stretch.end()
    memory, peak = rss_mib(job.pid), peak_rss_mib(job.pid)
    for member in members:
        member.transport.close()
    await session.dissolve(founders.created)
    session.close()
    ordered = sorted(founders.latencies_s)
    numbers = known(
        cpu_us_per_group=per_unit_of_cpu(usage, len(names), MICROSECONDS),
        groups_per_s=len(names) / usage.seconds,
        p50_us=percentile(ordered, 0.50) * MICROSECONDS,
        p99_us=percentile(ordered, 0.99) * MICROSECONDS,
        rss_mib=memory,
        peak_rss_mib=peak,
        generator_busy_percent=100 * usage.generator_cpu_s / usage.seconds,
    )
    return Outcome(numbers, {}, usage.others_share, session.requests.versions())


SCENARIO = Scenario(
    key="groups",
    title="Creation of groups of one member",
    rows=(
        Row(
            "creation",
            "5,000 groups (quick: 500), 32 connections",
            {CPU_US_PER_GROUP.key: 50.0, RSS_MIB.key: 55.0},
        ),
    ),
    metrics=(
        CPU_US_PER_GROUP,
        GROUPS_PER_S,
        P50_US,
        P99_US,
        RSS_MIB,
        PEAK_RSS_MIB,
        GENERATOR_BUSY,
    ),
    primary=CPU_US_PER_GROUP,
    run=run,
)
