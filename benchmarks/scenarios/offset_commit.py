"""Offset commits of stable members: one offset of one partition each, a new offset every time.

Unlike a heartbeat, a commit is appended to the group log, so this shows the cost of the log. Our
server and Kafka acknowledge without an fsync here (`--flush never`, and Kafka's default); the other
stand-ins keep offsets in memory only.
"""

from __future__ import annotations

from benchmarks import stable_members
from benchmarks.measures import CPU_US, Outcome, Row, Scenario
from benchmarks.session import TOPIC, Conversation, Job, Membership, Session
from benchmarks.steady import RING_SIZE, Ring
from coterie.protocol.api_keys import ApiKey


async def run(job: Job, row: Row) -> Outcome:
    """Measure commits in one shape."""
    return await stable_members.measure(job, row, prepare)


async def prepare(session: Session, conversation: Conversation, member: Membership) -> Ring:
    """Prepare the commits of a member."""
    commits = [
        session.requests.offset_commit(
            member.group, member.generation, member.member_id, TOPIC, offset
        )
        for offset in range(RING_SIZE)
    ]
    agreed = session.requests.agreed(ApiKey.OFFSET_COMMIT)
    return Ring(agreed, commits, await conversation.exchange(commits[0]))


SCENARIO = Scenario(
    key="offset_commit",
    title="OffsetCommit",
    rows=stable_members.rows(closed_cpu_us=12.0, pipelined_cpu_us=6.0),
    metrics=stable_members.METRICS,
    primary=CPU_US,
    run=run,
)
