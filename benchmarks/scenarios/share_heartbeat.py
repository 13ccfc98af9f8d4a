"""Heartbeats of stable members of share groups (KIP-932), as those of consumer groups.

Each connection is the only member of a group of its own, and its heartbeats tell nothing new.
"""

from __future__ import annotations

from benchmarks import stable_members
from benchmarks.measures import CPU_US, Outcome, Row, Scenario
from benchmarks.session import TOPIC, Conversation, Job, Membership, Session
from benchmarks.share_member import ShareMember
from benchmarks.steady import Ring
from coterie.protocol.api_keys import ApiKey
from coterie.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest


async def run(job: Job, row: Row) -> Outcome:
    """Measure heartbeats in one shape."""
    return await stable_members.measure(job, row, _prepare, form=_form)


async def _form(session: Session, conversation: Conversation, group: str) -> Membership:
    """Let a member join, and send heartbeats until nothing is new."""
    member = ShareMember(session, conversation, group)
    await member.join(TOPIC, 1)
    return Membership(group, member.epoch, member.member_id)


async def _prepare(session: Session, conversation: Conversation, member: Membership) -> Ring:
    agreed = session.requests.agreed(ApiKey.SHARE_GROUP_HEARTBEAT)
    frame = agreed.frame(
        ShareGroupHeartbeatRequest(
            group_id=member.group, member_id=member.member_id, member_epoch=member.generation
        )
    )
    return Ring(agreed, [frame], await conversation.exchange(frame))


SCENARIO = Scenario(
    key="share_heartbeat",
    title="ShareGroupHeartbeat",
    # At most 1.2 times what a consumer heartbeat may cost.
    rows=stable_members.rows(closed_cpu_us=13.0, pipelined_cpu_us=4.3),
    metrics=stable_members.METRICS,
    primary=CPU_US,
    run=run,
)
