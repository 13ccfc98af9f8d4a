"""Heartbeats of stable members of consumer groups (KIP-848), as those of classic groups.

Each connection is the only member of a group of its own. Its heartbeats say nothing but who it is
and at which epoch, as those of clients do while nothing changes, and their answers say nothing new.
"""

from __future__ import annotations

from benchmarks import stable_members
from benchmarks.consumer_member import ConsumerMember
from benchmarks.measures import CPU_US, Outcome, Row, Scenario
from benchmarks.session import TOPIC, Conversation, Job, Membership, Session
from benchmarks.steady import Ring
from coterie.protocol.api_keys import ApiKey
from coterie.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest


async def run(job: Job, row: Row) -> Outcome:
    """Measure heartbeats in one shape."""
    return await stable_members.measure(job, row, _prepare, form=_form)


async def _form(session: Session, conversation: Conversation, group: str) -> Membership:
    """Let a member join, and send heartbeats until nothing is new."""
    member = ConsumerMember(session, conversation, group)
    await member.join(TOPIC)
    await member.settle()
    return Membership(group, member.epoch, member.member_id)


async def _prepare(session: Session, conversation: Conversation, member: Membership) -> Ring:
    agreed = session.requests.agreed(ApiKey.CONSUMER_GROUP_HEARTBEAT)
    frame = agreed.frame(
        ConsumerGroupHeartbeatRequest(
            group_id=member.group, member_id=member.member_id, member_epoch=member.generation
        )
    )
    return Ring(agreed, [frame], await conversation.exchange(frame))


SCENARIO = Scenario(
    key="consumer_heartbeat",
    title="ConsumerGroupHeartbeat",
    rows=stable_members.rows(closed_cpu_us=10.8, pipelined_cpu_us=3.6),
    metrics=stable_members.METRICS,
    primary=CPU_US,
    run=run,
)
