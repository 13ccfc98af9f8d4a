"""Heartbeats of stable members of streams groups (KIP-1071), as those of consumer groups."""

from __future__ import annotations

from benchmarks import stable_members
from benchmarks.session import TOPIC, Conversation, Membership, Session
from benchmarks.streams_member import StreamsMember
from coterie.protocol.api_keys import ApiKey


async def _form(session: Session, conversation: Conversation, group: str) -> Membership:
    """Let a member join, and send heartbeats until nothing is new."""
    member = StreamsMember(session, conversation, group)
    await member.join(TOPIC)
    await member.settle()
    return Membership(group, member.epoch, member.member_id)


# At most 1.2 times what a consumer heartbeat may cost.
SCENARIO = stable_members.heartbeats(
    "streams_heartbeat", ApiKey.STREAMS_GROUP_HEARTBEAT, _form, 13.0, 4.3
)
