"""Groups of 100, 500 and 1,000 members: the time until every member has its assignment.

There are three phases. Each is over when every member has synced in one generation of the full
size:

* initial: all members enter at once, each gets its id, then all join with it;
* join: one more member enters; the others learn of it by a heartbeat and rejoin;
* leave: that member leaves; the others learn of it by a heartbeat and rejoin.

"total" runs from the phase's first JoinGroup to its last SyncGroup response. "settle" runs from the
last JoinGroup sent to the last SyncGroup response: this part depends on the broker alone, and not
on the time at which members learn of the rebalance. Join and leave are repeated, and the medians
are reported. The leader's assignments are built beforehand and their computation is not measured.
"""

from __future__ import annotations

from statistics import median
from typing import NamedTuple

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
)
from benchmarks.member import connect_members
from benchmarks.processes import Stretch, peak_rss_mib, reset_peak_rss
from benchmarks.session import Job, Session

REPEATS = 5

INITIAL_MS = Metric("initial_ms", "initial\ntotal ms", 0)
INITIAL_SETTLE_MS = Metric("initial_settle_ms", "initial\nsettle ms", 0)
JOIN_MS = Metric("join_ms", "join\ntotal ms", 0)
JOIN_SETTLE_MS = Metric("join_settle_ms", "join\nsettle ms", 1)
LEAVE_MS = Metric("leave_ms", "leave\ntotal ms", 0)
LEAVE_SETTLE_MS = Metric("leave_settle_ms", "leave\nsettle ms", 1)
CPU_MS_PER_REBALANCE = Metric("cpu_ms_per_rebalance", "CPU ms/\nrebalance", 1)


class Phase(NamedTuple):
    """The times of one phase."""

    total_ms: float
    settle_ms: float


async def run(job: Job, row: Row) -> Outcome:
    """Run the phases with the row's number of members."""
    size = int(row.key)
    session = await Session.open(job)
    assembly = Assembly(session.requests, session.group_name(0))
    members = await connect_members(job, session.requests, assembly, size + 1)
    newcomer = members[size]
    assembly.members = members[:size]
    reset_peak_rss(job.pid)

    await assembly.gather()
    initial = _phase(assembly, min(member.entered_at for member in assembly.members))
    joins, leaves = [], []
    stretch = Stretch(job.pid)
    for _ in range(REPEATS):
        await assembly.admit(newcomer)
        joins.append(_phase(assembly, newcomer.entered_at))
        await assembly.dismiss(newcomer)
        leaves.append(_phase(assembly, min(member.rejoined_at for member in assembly.members)))
    usage = stretch.end()
    peak = peak_rss_mib(job.pid)

    assembly.close(members)
    await session.dissolve([(assembly.group, member.member_id) for member in assembly.members])
    session.close()
    numbers = known(
        initial_ms=initial.total_ms,
        initial_settle_ms=initial.settle_ms,
        join_ms=median(phase.total_ms for phase in joins),
        join_settle_ms=median(phase.settle_ms for phase in joins),
        leave_ms=median(phase.total_ms for phase in leaves),
        leave_settle_ms=median(phase.settle_ms for phase in leaves),
        cpu_ms_per_rebalance=per_unit_of_cpu(usage, 2 * REPEATS, MILLISECONDS),
        peak_rss_mib=peak,
        generator_busy_percent=100 * usage.generator_cpu_s / usage.seconds,
    )
    return Outcome(numbers, {}, usage.others_share, session.requests.versions())


def _phase(assembly: Assembly, first_join_at: float) -> Phase:
    last_rejoin_at = max(member.rejoined_at for member in assembly.members)
    return Phase(
        (assembly.last_sync_at - first_join_at) * MILLISECONDS,
        (assembly.last_sync_at - last_rejoin_at) * MILLISECONDS,
    )


SCENARIO = Scenario(
    key="large_groups",
    title="Large groups, from the first JoinGroup to the last SyncGroup response",
    rows=(
        Row("100", "100 members"),
        Row("500", "500 members"),
        Row("1000", "1,000 members", {JOIN_SETTLE_MS.key: 30.0}),
    ),
    metrics=(
        INITIAL_MS,
        INITIAL_SETTLE_MS,
        JOIN_MS,
        JOIN_SETTLE_MS,
        LEAVE_MS,
        LEAVE_SETTLE_MS,
        CPU_MS_PER_REBALANCE,
        PEAK_RSS_MIB,
        GENERATOR_BUSY,
    ),
    primary=JOIN_SETTLE_MS,
    run=run,
)
