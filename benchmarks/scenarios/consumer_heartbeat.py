"""Heartbeats of stable members of consumer groups (KIP-848), as those of classic groups.

Each connection is the only member of a group of its own. Its heartbeats say nothing but who it is
and at which epoch, as those of clients do while nothing changes, and their answers say nothing new.
"""

from __future__ import annotations

import asyncio

from benchmarks import stable_members
from benchmarks.measures import CPU_US, Outcome, Row, Scenario
from benchmarks.requests import REBALANCE_TIMEOUT_MS, Refused
from benchmarks.session import (
    NOT_READY,
    PATIENCE_S,
    RETRY_AFTER_S,
    TOPIC,
    Conversation,
    Job,
    Membership,
    Session,
)
from benchmarks.steady import Ring
from coterie.protocol.api_keys import ApiKey
from coterie.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

# As long as an id that a client makes: a UUID in the letters of base64.
_MEMBER_ID = "bench-0000000000000000"


async def run(job: Job, row: Row) -> Outcome:
    """Measure heartbeats in one shape."""
    return await stable_members.measure(job, row, _prepare, form=_form)


async def _form(session: Session, conversation: Conversation, group: str) -> Membership:
    """Let a member join, and send heartbeats until nothing is new."""
    agreed = session.requests.agreed(ApiKey.CONSUMER_GROUP_HEARTBEAT)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + PATIENCE_S
    frame = agreed.frame(
        ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=_MEMBER_ID,
            member_epoch=0,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            subscribed_topic_names=[TOPIC],
            topic_partitions=[],
        )
    )
    has_partitions = False
    while True:
        response: ConsumerGroupHeartbeatResponse = agreed.response(
            await conversation.exchange(frame)
        )
        code = response.error_code
        if code:
            if code not in NOT_READY or loop.time() > deadline:
                raise Refused(ApiKey.CONSUMER_GROUP_HEARTBEAT, code)
            await asyncio.sleep(RETRY_AFTER_S)
            continue
        assert response.member_id is not None, "an accepted heartbeat is answered with the id"
        if has_partitions and response.assignment is None:
            return Membership(group, response.member_epoch, response.member_id)
        has_partitions = has_partitions or bool(
            response.assignment and response.assignment.topic_partitions
        )
        if loop.time() > deadline:
            raise ConnectionError(f"the member of {group!r} was not given the partition")
        frame = agreed.frame(_heartbeat(group, response.member_id, response.member_epoch))


async def _prepare(session: Session, conversation: Conversation, member: Membership) -> Ring:
    agreed = session.requests.agreed(ApiKey.CONSUMER_GROUP_HEARTBEAT)
    frame = agreed.frame(_heartbeat(member.group, member.member_id, member.generation))
    return Ring(agreed, [frame], await conversation.exchange(frame))


def _heartbeat(group: str, member_id: str, epoch: int) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(group_id=group, member_id=member_id, member_epoch=epoch)


SCENARIO = Scenario(
    key="consumer_heartbeat",
    title="ConsumerGroupHeartbeat",
    rows=stable_members.rows(closed_cpu_us=10.8, pipelined_cpu_us=3.6),
    metrics=stable_members.METRICS,
    primary=CPU_US,
    run=run,
)
