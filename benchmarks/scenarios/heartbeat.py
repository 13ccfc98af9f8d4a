"""Heartbeats of stable members: each connection is the one member of a group of its own.

This is what a coordinator does nearly all of its time, and the request with the least work behind
it, so it shows the cost of the server itself: reading, decoding, finding the member, answering.
Against the floor server, which knows no groups, the same frames carry an invented member.
"""

from __future__ import annotations

from benchmarks import frames, stable_members
from benchmarks.answers import error_at
from benchmarks.frames import HEARTBEAT, Spoken
from benchmarks.measures import CPU_US, Outcome, Row, Scenario
from benchmarks.session import Conversation, Job, Membership, Session
from benchmarks.steady import Ring, load

# As long as a generated member id: client id, hyphen, UUID.
_INVENTED_MEMBER = "bench-00000000-0000-0000-0000-000000000000"


async def run(job: Job, row: Row) -> Outcome:
    """Measure heartbeats in one shape."""
    if not job.bare:
        return await stable_members.measure(job, row, _prepare)
    steady = await load(job, stable_members.SHAPES[row.key], bare_ring)
    return stable_members.outcome_of(job, steady, {HEARTBEAT.name: HEARTBEAT.wanted[0]})


async def _prepare(session: Session, conversation: Conversation, member: Membership) -> Ring:
    frame = session.frames.heartbeat(member.group, member.generation, member.member_id)
    places = (error_at(session.frames.spoken(HEARTBEAT)),)
    return Ring([frame], await conversation.ask(frame), HEARTBEAT.name, places)


async def bare_ring(number: int, conversation: Conversation) -> Ring:
    """Prepare the heartbeats of a member that the floor server has never heard of."""
    spoken = Spoken(HEARTBEAT, HEARTBEAT.wanted[0])
    frame = frames.heartbeat(spoken, f"bench-floor-{number:05d}", 1, _INVENTED_MEMBER)
    return Ring([frame], await conversation.ask(frame), HEARTBEAT.name, (error_at(spoken),))


SCENARIO = Scenario(
    key="heartbeat",
    title="Heartbeat",
    rows=stable_members.rows(closed_cpu_us=9.0, pipelined_cpu_us=3.0),
    metrics=stable_members.METRICS,
    primary=CPU_US,
    run=run,
    floor=True,
)
