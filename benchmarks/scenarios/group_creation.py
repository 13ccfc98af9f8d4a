"""Creation of 5,000 groups of one member: JoinGroup, JoinGroup with the id, SyncGroup.

32 connections make groups one after the other. It shows what a group costs to make (its state, its
timers, two records in the log) and what it costs to keep: resident memory afterwards. Leaving and
deleting the groups, on a broker that lives on, is not measured.
"""

from __future__ import annotations

import asyncio
import time

from benchmarks.frames import Frames
from benchmarks.measures import (
    GENERATOR_BUSY,
    MICROSECONDS,
    PEAK_RSS_MIB,
    RSS_MIB,
    Metric,
    Outcome,
    Row,
    Scenario,
    per_unit_of_cpu,
    percentile,
    told,
)
from benchmarks.member import Member, Watcher, connect_members
from benchmarks.processes import Stretch, peak_rss_mib, reset_peak_rss, rss_mib
from benchmarks.session import TOPIC, Job, Session

CONNECTIONS = 32
GROUPS = 5_000
GROUPS_QUICK = 500
TIMEOUT_S = 60.0

CPU_US_PER_GROUP = Metric("cpu_us_per_group", "CPU\nµs/group", 1)
GROUPS_PER_S = Metric("groups_per_s", "groups/s", 0, more_is_better=True)
P50_US = Metric("p50_us", "p50\nµs/group", 0)
P99_US = Metric("p99_us", "p99\nµs/group", 0)


class Founders(Watcher):
    """Makes all groups of a list, each member going on to the next group as soon as it synced."""

    def __init__(self, frames: Frames, groups: list[tuple[str, bytes]]) -> None:
        self._frames = frames
        self.finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._groups = iter(groups)
        self._missing = len(groups)
        self._began: dict[Member, float] = {}
        self.latencies_s: list[float] = []
        self.made: list[tuple[str, str]] = []

    def next_group(self, member: Member) -> None:
        """Let a member found the next group, if there is one left."""
        found = next(self._groups, None)
        if found is not None:
            self._began[member] = time.perf_counter()
            member.enter(*found)

    def leads(self, member: Member, size: int, answer: bytes) -> bytes:
        return self._frames.assignments([member.member_id], TOPIC)

    def synced(self, member: Member) -> None:
        self.latencies_s.append(time.perf_counter() - self._began[member])
        self.made.append((member.group, member.member_id))
        self._missing -= 1
        if self._missing == 0:
            self.finished.set_result(None)
        else:
            self.next_group(member)

    def failed(self, error: Exception) -> None:
        if not self.finished.done():
            self.finished.set_exception(error)


async def run(job: Job, row: Row) -> Outcome:
    """Make the groups and measure."""
    session = await Session.open(job)
    names = [session.group_name(i) for i in range(GROUPS_QUICK if job.quick else GROUPS)]
    founders = Founders(
        session.frames, [(name, session.frames.join_group(name, "", TOPIC)) for name in names]
    )
    members = await connect_members(job, session.frames, founders, CONNECTIONS)
    reset_peak_rss(job.pid)
    stretch = Stretch(job.pid)
    for member in members:
        founders.next_group(member)
    await asyncio.wait_for(founders.finished, TIMEOUT_S)
    usage = stretch.end()
    memory, peak = rss_mib(job.pid), peak_rss_mib(job.pid)
    for member in members:
        member.transport.close()
    await session.dissolve(founders.made)
    session.close()
    ordered = sorted(founders.latencies_s)
    numbers = told(
        cpu_us_per_group=per_unit_of_cpu(usage, len(names), MICROSECONDS),
        groups_per_s=len(names) / usage.seconds,
        p50_us=percentile(ordered, 0.50) * MICROSECONDS,
        p99_us=percentile(ordered, 0.99) * MICROSECONDS,
        rss_mib=memory,
        peak_rss_mib=peak,
        generator_busy_percent=100 * usage.generator_cpu_s / usage.seconds,
    )
    return Outcome(numbers, {}, usage.others_share, session.frames.agreed())


SCENARIO = Scenario(
    key="groups",
    title="Groups of one member are made",
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
