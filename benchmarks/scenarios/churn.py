"""A group of ten members under constant churn: one joins, one leaves, all rejoin and sync, again.

One cycle is one rebalance of 22 requests: the newcomer gets its id and joins, the oldest member
leaves, the nine others rejoin as if they had learned of it by a heartbeat, and all ten sync. The
next cycle begins when the last of the ten has its assignment. The connection of the member that
left is used by the next newcomer.
"""

from __future__ import annotations

import time

from benchmarks.assembly import Assembly
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
    percentile,
)
from benchmarks.member import Member, connect_members
from benchmarks.processes import Stretch, peak_rss_mib, reset_peak_rss
from benchmarks.session import Job, Session

MEMBERS = 10

CPU_MS_PER_REBALANCE = Metric("cpu_ms_per_rebalance", "CPU ms/\nrebalance", 2)
REBALANCES_PER_S = Metric("rebalances_per_s", "rebalances/s", 0, more_is_better=True)
P50_MS = Metric("p50_ms", "p50\nms", 2)
P99_MS = Metric("p99_ms", "p99\nms", 2)
# Above 1, the broker also completed generations without the newcomer.
GENERATIONS = Metric("generations_per_rebalance", "generations\neach", 2)


async def run(job: Job, row: Row) -> Outcome:
    """Churn for the job's duration."""
    session = await Session.open(job)
    assembly = Assembly(session.requests, session.group_name(0))
    members = await connect_members(job, session.requests, assembly, MEMBERS + 1)
    spare = members[MEMBERS]
    assembly.members = members[:MEMBERS]
    await assembly.gather()
    _, spare = await _churn(assembly, spare, job.settle_s)
    reset_peak_rss(job.pid)
    first = assembly.generation
    stretch = Stretch(job.pid)
    cycles, spare = await _churn(assembly, spare, job.duration_s)
    usage = stretch.end()
    peak = peak_rss_mib(job.pid)
    assembly.close(members)
    await session.dissolve([(assembly.group, member.member_id) for member in assembly.members])
    session.close()
    ordered = sorted(cycles)
    numbers = known(
        cpu_ms_per_rebalance=per_unit_of_cpu(usage, len(cycles), MILLISECONDS),
        rebalances_per_s=len(cycles) / usage.seconds,
        p50_ms=percentile(ordered, 0.50) * MILLISECONDS,
        p99_ms=percentile(ordered, 0.99) * MILLISECONDS,
        generations_per_rebalance=(assembly.generation - first) / len(cycles),
        peak_rss_mib=peak,
        generator_busy_percent=100 * usage.generator_cpu_s / usage.seconds,
    )
    return Outcome(numbers, {}, usage.others_share, session.requests.versions())


async def _churn(assembly: Assembly, spare: Member, seconds: float) -> tuple[list[float], Member]:
    """Repeat the cycle at least once; return the time of each, and the next newcomer."""
    cycles = []
    end = time.perf_counter() + seconds
    while True:
        began = time.perf_counter()
        newcomer, spare = spare, assembly.members[0]
        await assembly.admit(newcomer, leaver=spare)
        now = time.perf_counter()
        cycles.append(now - began)
        if now >= end:
            return cycles, spare


SCENARIO = Scenario(
    key="churn",
    title="Rebalance of a group of ten, one joins and one leaves each time",
    rows=(Row("ten", "one group", {CPU_MS_PER_REBALANCE.key: 0.6}),),
    metrics=(
        CPU_MS_PER_REBALANCE,
        REBALANCES_PER_S,
        P50_MS,
        P99_MS,
        GENERATIONS,
        PEAK_RSS_MIB,
        GENERATOR_BUSY,
    ),
    primary=CPU_MS_PER_REBALANCE,
    run=run,
)
