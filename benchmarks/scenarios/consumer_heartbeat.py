"""Heartbeats of stable members of consumer groups (KIP-848), as those of classic groups."""

from __future__ import annotations

from benchmarks import stable_members
from benchmarks.consumer_member import ConsumerMember
from benchmarks.session import TOPIC, Conversation, Membership, Session
from coterie.protocol.api_keys import ApiKey


async def _form(session: Session, conversation: Conversation, group: str) -> Membership:
    """Let a member join, and send heartbeats until nothing is new."""
    member = ConsumerMember(session, conversation, group)
    await member.join(TOPIC)
    await member.settle()
    return Membership(group, member.epoch, member.member_id)


SCENARIO = stable_members.heartbeats(
    "consumer_heartbeat", ApiKey.CONSUMER_GROUP_HEARTBEAT, _form, 10.8, 3.6
)
