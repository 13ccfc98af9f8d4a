"""Steady load by stable members: the common part of the heartbeat, commit and fetch scenarios.

Each connection is the only member of a group of its own, which is formed before the load begins.
It then sends one kind of request for the job's duration, in a closed loop or pipelined.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

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
from benchmarks.processes import peak_rss_mib, reset_peak_rss
from benchmarks.session import Conversation, Job, Membership, Session
from benchmarks.steady import CLOSED, PIPELINED, Ring, Shape, Steady, load
from coterie.protocol.api_keys import ApiKey
from coterie.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from coterie.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from coterie.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from coterie.protocol.wire import Message

METRICS = (CPU_US, REQUESTS_PER_S, P50_US, P99_US, PEAK_RSS_MIB, GENERATOR_BUSY)
SHAPES = {"closed": CLOSED, "pipelined": PIPELINED}

# A few errors are printed beside the figures; with more, the figures would measure errors.
MAX_ERROR_SHARE = 0.01

# Sends one request, checks the response, and returns the ring of the member's connection.
Prepare = Callable[[Session, Conversation, Membership], Awaitable[Ring]]

# Heartbeats that reconcile. A member at rest says who it is and at which epoch, as clients do while
# nothing changes, and the answer says nothing new.
_REQUESTS: dict[ApiKey, Callable[..., Message]] = {
    ApiKey.CONSUMER_GROUP_HEARTBEAT: ConsumerGroupHeartbeatRequest,
    ApiKey.SHARE_GROUP_HEARTBEAT: ShareGroupHeartbeatRequest,
    # No member of the group has an endpoint.
    ApiKey.STREAMS_GROUP_HEARTBEAT: partial(
        StreamsGroupHeartbeatRequest, endpoint_information_epoch=0
    ),
}

# Forms a group of one member, whose heartbeats have nothing to tell afterwards.
Form = Callable[[Session, Conversation, str], Awaitable[Membership]]


def rows(closed_cpu_us: float, pipelined_cpu_us: float) -> tuple[Row, Row]:
    """Return both rows of a steady scenario with their goals in µs of server CPU per request."""
    return (
        Row("closed", "closed loop, 32 connections", {CPU_US.key: closed_cpu_us}),
        Row("pipelined", "pipelined, 8 connections x 32", {CPU_US.key: pipelined_cpu_us}),
    )


async def measure(
    job: Job,
    row: Row,
    prepare: Prepare,
    *,
    shape: Shape | None = None,
    numbers: Sequence[int] | None = None,
    form: Form | None = None,
) -> Outcome:
    """Form one group for each connection, load the broker in the row's shape, and clean up.

    Args:
        job: the work.
        row: what is measured; it gives the shape.
        prepare: prepares the requests of a member.
        shape: another shape than the row's.
        numbers: of the groups, if not 0, 1, 2 and so on.
        form: forms a group of one member, if not as a classic group.

    Raises:
        NotServed, Refused, ConnectionError: why the row cannot be measured.
    """
    session = await Session.open(job)
    members: list[tuple[str, str]] = []

    async def ring_for(number: int, conversation: Conversation) -> Ring:
        group = session.group_name(number if numbers is None else numbers[number])
        member = await (form or Session.form_group)(session, conversation, group)
        members.append((member.group, member.member_id))
        return await prepare(session, conversation, member)

    reset_peak_rss(job.pid)
    steady = await load(job, shape or SHAPES[row.key], ring_for)
    outcome = outcome_of(job, steady, session.requests.versions())
    await session.dissolve(members)
    session.close()
    return outcome


async def prepare_heartbeats(
    session: Session, conversation: Conversation, member: Membership
) -> Ring:
    """Prepare the heartbeats of a member."""
    agreed = session.requests.agreed(ApiKey.HEARTBEAT)
    frame = session.requests.heartbeat(member.group, member.generation, member.member_id)
    return Ring(agreed, [frame], await conversation.exchange(frame))


def heartbeats(key: str, api: ApiKey, form: Form, *goals_us: float) -> Scenario:
    """Return the scenario of a heartbeat that reconciles.

    Args:
        key: of the scenario.
        api: the heartbeat.
        form: forms a group of one member.
        goals_us: of server CPU per request, in a closed loop and pipelined.
    """

    async def prepare(session: Session, conversation: Conversation, member: Membership) -> Ring:
        agreed = session.requests.agreed(api)
        request = _REQUESTS[api](
            group_id=member.group, member_id=member.member_id, member_epoch=member.generation
        )
        frame = agreed.frame(request)
        return Ring(agreed, [frame], await conversation.exchange(frame))

    async def run(job: Job, row: Row) -> Outcome:
        return await measure(job, row, prepare, form=form)

    return Scenario(
        key=key,
        title=api.kafka_name,
        rows=rows(*goals_us),
        metrics=METRICS,
        primary=CPU_US,
        run=run,
    )


def outcome_of(job: Job, steady: Steady, versions: dict[str, int]) -> Outcome:
    """Convert the measurements of a steady load into the numbers of its row.

    Raises:
        ConnectionError: there were no responses, or too many of them were errors.
    """
    ordered = sorted(steady.latencies_s)
    requests, usage = len(ordered), steady.usage
    if not requests:
        raise ConnectionError("no request was answered in the measured time")
    errors = sum(steady.errors.values())
    if errors > MAX_ERROR_SHARE * steady.answered_in_all:
        most = steady.errors.most_common(1)[0][0]
        raise ConnectionError(f"{errors} of {steady.answered_in_all} responses were errors: {most}")
    numbers = known(
        requests_per_s=requests / usage.seconds,
        p50_us=percentile(ordered, 0.50) * MICROSECONDS,
        p99_us=percentile(ordered, 0.99) * MICROSECONDS,
        cpu_us_per_request=per_unit_of_cpu(usage, requests, MICROSECONDS),
        peak_rss_mib=peak_rss_mib(job.pid),
        generator_busy_percent=100 * usage.generator_cpu_s / usage.seconds,
    )
    return Outcome(numbers, dict(steady.errors), usage.others_share, versions)
