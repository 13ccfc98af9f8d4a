"""Heartbeats of stable members of streams groups (KIP-1071), as those of consumer groups."""

from __future__ import annotations

import asyncio

from benchmarks import stable_members
from benchmarks.requests import REBALANCE_TIMEOUT_MS, Refused
from benchmarks.session import (
    NOT_READY,
    PATIENCE_S,
    RETRY_AFTER_S,
    TOPIC,
    Conversation,
    Membership,
    Session,
)
from coterie.assignors.model import TopicPartition
from coterie.conversation.streams_member import StreamsMember
from coterie.protocol.api_keys import ApiKey
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatResponse

# All have the same length, as those of the other heartbeats.
_MEMBER_ID = f"bench-{0:016d}"


async def _form(session: Session, conversation: Conversation, group: str) -> Membership:
    """Let a member join, and send heartbeats until it has its task and nothing is new.

    The first tasks of a group are assigned after `group.streams.initial.rebalance.delay.ms`.
    """
    agreed = session.requests.agreed(ApiKey.STREAMS_GROUP_HEARTBEAT)
    member = StreamsMember(group, _MEMBER_ID, names=[TOPIC], rebalance_ms=REBALANCE_TIMEOUT_MS)
    owned: frozenset[TopicPartition] = frozenset()
    loop = asyncio.get_running_loop()
    deadline = loop.time() + PATIENCE_S
    while loop.time() < deadline:
        epoch, request = member.generation_id, member.heartbeat_request(owned)
        response: StreamsGroupHeartbeatResponse = agreed.response(
            await conversation.exchange(agreed.frame(request))
        )
        if response.error_code not in (ErrorCode.NONE, *NOT_READY):
            raise Refused(ApiKey.STREAMS_GROUP_HEARTBEAT, response.error_code)
        target = member.take(response)
        is_news = target is not None or member.generation_id != epoch
        if owned and not is_news and request.active_tasks is None:
            return Membership(group, epoch, _MEMBER_ID)
        owned = owned if target is None else target
        if not owned:
            await asyncio.sleep(RETRY_AFTER_S)
    raise ConnectionError(f"the member of {group!r} was not given the task")


# At most 1.2 times what a consumer heartbeat may cost.
SCENARIO = stable_members.heartbeats(
    "streams_heartbeat", ApiKey.STREAMS_GROUP_HEARTBEAT, _form, 13.0, 4.3
)
