"""Heartbeats of stable members: each connection is the only member of a group of its own.

Heartbeats are nearly all of a coordinator's work. No request needs less processing, so this shows
the cost of the server itself: reading, decoding, finding the member and answering. The floor, which
has no groups, gets the same frames with an invented member.
"""

from __future__ import annotations

from benchmarks import stable_members
from benchmarks.measures import CPU_US, Outcome, Row, Scenario
from benchmarks.requests import VERSIONS, AgreedApi
from benchmarks.session import Conversation, Job
from benchmarks.steady import Ring, load
from coterie.protocol.api_keys import ApiKey
from coterie.protocol.messages.heartbeat import HeartbeatRequest

# As long as a generated member id: client id, hyphen, UUID.
_INVENTED_MEMBER = "bench-00000000-0000-0000-0000-000000000000"
_FLOOR_VERSION = VERSIONS[ApiKey.HEARTBEAT][0]


async def run(job: Job, row: Row) -> Outcome:
    """Measure heartbeats in one shape."""
    if not job.bare:
        return await stable_members.measure(job, row, stable_members.prepare_heartbeats)
    steady = await load(job, stable_members.SHAPES[row.key], bare_ring)
    versions = {ApiKey.HEARTBEAT.kafka_name: _FLOOR_VERSION}
    return stable_members.outcome_of(job, steady, versions)


async def bare_ring(number: int, conversation: Conversation) -> Ring:
    """Prepare the heartbeats of an invented member, for the floor."""
    agreed = AgreedApi(ApiKey.HEARTBEAT, _FLOOR_VERSION)
    frame = agreed.frame(
        HeartbeatRequest(
            group_id=f"bench-floor-{number:05d}", generation_id=1, member_id=_INVENTED_MEMBER
        )
    )
    return Ring(agreed, [frame], await conversation.exchange(frame))


SCENARIO = Scenario(
    key="heartbeat",
    title="Heartbeat",
    rows=stable_members.rows(closed_cpu_us=9.0, pipelined_cpu_us=3.0),
    metrics=stable_members.METRICS,
    primary=CPU_US,
    run=run,
    floor=True,
)
