"""Removal of 5,000 groups of one member: the member leaves, then the group is deleted.

32 connections remove groups that were created before, unmeasured: LeaveGroup, then DeleteGroups of
one group.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

from benchmarks.measures import (
    GENERATOR_BUSY,
    MICROSECONDS,
    Metric,
    Outcome,
    Row,
    Scenario,
    known,
    per_unit_of_cpu,
    percentile,
)
from benchmarks.processes import Stretch
from benchmarks.requests import Refused, Requests, first_error
from benchmarks.scenarios.group_creation import CONNECTIONS, GROUPS, GROUPS_QUICK
from benchmarks.session import Conversation, Job, Membership, Session, connect
from coterie.protocol.api_keys import ApiKey
from coterie.protocol.errors import ErrorCode

CPU_US_PER_REQUEST = Metric("cpu_us_per_request", "CPU\nµs/request", 1)
GROUPS_PER_S = Metric("groups_per_s", "groups/s", 0, more_is_better=True)
P50_US = Metric("p50_us", "p50\nµs/group", 0)
P99_US = Metric("p99_us", "p99\nµs/group", 0)


async def run(job: Job, row: Row) -> Outcome:
    """Create the groups, then remove them and measure."""
    session = await Session.open(job)
    requests = session.requests
    # Both are agreed on before the measured time; a broker may not serve them.
    apis = [requests.agreed(ApiKey.LEAVE_GROUP), requests.agreed(ApiKey.DELETE_GROUPS)]
    conversations = await asyncio.gather(*(connect(job) for _ in range(CONNECTIONS)))
    names = iter([session.group_name(i) for i in range(GROUPS_QUICK if job.quick else GROUPS)])

    async def create(conversation: Conversation) -> list[Membership]:
        return [await session.form_group(conversation, name) for name in names]

    created = await asyncio.gather(*map(create, conversations))
    groups = [each for part in created for each in part]
    waiting = iter(groups)
    latencies_s: list[float] = []
    stretch = Stretch(job.pid)
    await asyncio.gather(
        *(_remove(conversation, requests, waiting, latencies_s) for conversation in conversations)
    )
    usage = stretch.end()
    for conversation in conversations:
        conversation.transport.close()
    session.close()
    ordered = sorted(latencies_s)
    numbers = known(
        cpu_us_per_request=per_unit_of_cpu(usage, len(apis) * len(groups), MICROSECONDS),
        groups_per_s=len(groups) / usage.seconds,
        p50_us=percentile(ordered, 0.50) * MICROSECONDS,
        p99_us=percentile(ordered, 0.99) * MICROSECONDS,
        generator_busy_percent=100 * usage.generator_cpu_s / usage.seconds,
    )
    return Outcome(numbers, {}, usage.others_share, requests.versions())


async def _remove(
    conversation: Conversation,
    requests: Requests,
    waiting: Iterator[Membership],
    latencies_s: list[float],
) -> None:
    for membership in waiting:
        group = membership.group
        began_s = time.perf_counter()
        for api, frame in (
            (ApiKey.LEAVE_GROUP, requests.leave_group(group, membership.member_id)),
            (ApiKey.DELETE_GROUPS, requests.delete_groups([group])),
        ):
            response = requests.agreed(api).response(await conversation.exchange(frame))
            if (code := first_error(response)) != ErrorCode.NONE:
                raise Refused(api, code)
        latencies_s.append(time.perf_counter() - began_s)


SCENARIO = Scenario(
    key="group_removal",
    title="Removal of groups of one member",
    rows=(
        Row(
            "removal",
            "5,000 groups (quick: 500), 32 connections: LeaveGroup and DeleteGroups",
            {CPU_US_PER_REQUEST.key: 50.0},
        ),
    ),
    metrics=(CPU_US_PER_REQUEST, GROUPS_PER_S, P50_US, P99_US, GENERATOR_BUSY),
    primary=CPU_US_PER_REQUEST,
    run=run,
)
