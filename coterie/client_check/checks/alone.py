"""One member alone in the classic protocol: the first scenario."""

from coterie.client_check.checks.single_member import (
    CONNECTING,
    ENDS,
    POSITIONS,
    READ_LIMIT_S,
    READING,
    judge_connecting,
    judge_end,
    judge_reading,
    play_alone,
)
from coterie.client_check.conversation import ClientExchange
from coterie.client_check.model import Check, Judgement, partitions_text, scenario
from coterie.client_check.run import TOPIC, Run
from coterie.conversation.subscriptions import decoded_assignment
from coterie.protocol.errors import ErrorCode, MalformedFrame
from coterie.protocol.messages.consumer_protocol import decode_subscription

GIVEN_ID_SINCE = 4
# Sessions shorter than three heartbeats end when one heartbeat is lost.
_HEARTBEATS_A_SESSION = 3


@scenario(
    *CONNECTING,
    Check(
        "joining/uses-given-id",
        "After MEMBER_ID_REQUIRED the client joins again with the id that it was given.",
        "KIP-394; [joining/member-id]",
    ),
    Check(
        "joining/sends-subscription",
        "JoinGroup carries the subscribed topics as a consumer's subscription.",
        "[consumer-protocol/protocol-type]",
    ),
    Check(
        "joining/states-timeouts",
        "The session timeout is at least a second, and a rebalance may take at least as long.",
        "KIP-62; [joining/rebalance-timeout]",
    ),
    Check(
        "assigning/alone",
        "A leader without followers assigns every partition to itself.",
        "[syncing/leader-assignment]",
    ),
    Check(
        "joining/syncs-its-generation",
        "SyncGroup has the generation and the member id of the response to JoinGroup.",
        "[syncing/order-of-checks]",
    ),
    *POSITIONS,
    Check(
        "heartbeats/in-time",
        "At least three heartbeats fit into a session.",
        "[sessions/session-timeout]; heartbeat.interval.ms of Kafka's consumer",
    ),
    Check(
        "heartbeats/identity",
        "Heartbeats have the present generation and member id.",
        "[sessions/identity-check]",
    ),
    Check(
        "committing/identity",
        "Commits have the present generation and member id.",
        "[offsets/commit-validation]",
        ("commits",),
    ),
    *READING,
    Check(
        "closing/leaves",
        "At its end a dynamic member leaves the group.",
        "[sessions/leave]",
        ("ends",),
    ),
    ENDS,
)
async def alone(run: Run) -> None:
    """A member alone reads a topic and ends."""
    story = await play_alone(run)
    judge_connecting(run)
    _judge_joining(run, story.given)
    judge_reading(run, story)
    _judge_heartbeats(run, story.given)
    judge_end(run, story, "LeaveGroup")


def _judge_joining(run: Run, sync: ClientExchange) -> None:
    joins = run.joins()
    refused = next((each for each in joins if each.error == ErrorCode.MEMBER_ID_REQUIRED), None)
    name = "joining/uses-given-id"
    if refused is None:
        version = joins[0].version
        run.skip(name, f"JoinGroup v{version} is older than v{GIVEN_ID_SINCE}, so no id is given")
    else:
        again = next((each for each in joins if each.place > refused.place), None)
        used = None if again is None else again.request.member_id
        run.check(
            name,
            used == refused.response.member_id,
            f"it was given {refused.response.member_id} and joined with '{used}'",
        )
    _judge_subscription(run, joins[0])
    request = joins[0].request
    session_ms, rebalance_ms = request.session_timeout_ms, request.rebalance_timeout_ms
    run.check(
        "joining/states-timeouts",
        session_ms >= 1000 and (joins[0].version == 0 or rebalance_ms >= session_ms),
        f"session {session_ms} ms, rebalance {rebalance_ms} ms",
        Judgement.DIFFERS,
    )
    answer = next(
        each.response for each in reversed(joins) if each.place < sync.place and each.response
    )
    wanted = answer.generation_id, answer.member_id
    given = sync.request.generation_id, sync.request.member_id
    run.check("joining/syncs-its-generation", wanted == given, f"it sent {given}, not {wanted}")
    own = [
        partition
        for each in sync.request.assignments
        if each.member_id == answer.member_id
        for partition in decoded_assignment(each.assignment)
    ]
    run.check(
        "assigning/alone",
        sorted(own) == sorted(run.partitions()),
        f"it assigned {partitions_text(own)} to itself",
    )


def _judge_subscription(run: Run, join: ClientExchange) -> None:
    name = "joining/sends-subscription"
    topics: list[str] = []
    try:
        for each in join.request.protocols:
            topics += decode_subscription(each.metadata).topics
    except MalformedFrame as error:
        run.verdict(name, Judgement.BREAKS, f"not a subscription: {error}")
        return
    kind = join.request.protocol_type
    run.check(
        name,
        kind == "consumer" and set(topics) == {TOPIC},
        f"protocol type '{kind}', topics {sorted(set(topics))}",
    )


def _judge_heartbeats(run: Run, sync: ClientExchange) -> None:
    beats = run.talk.of("Heartbeat", after=sync.place)
    session_s = run.profile.session_timeout_ms / 1000
    interval_s = run.profile.heartbeat_interval_s
    name = "heartbeats/in-time"
    if interval_s is None:
        run.verdict(name, Judgement.BREAKS, f"{len(beats)} heartbeats within {READ_LIMIT_S:g} s")
    else:
        run.check(
            name,
            interval_s * _HEARTBEATS_A_SESSION <= session_s,
            f"{interval_s:g} s pass between heartbeats, the session ends after {session_s:g} s",
            Judgement.DIFFERS if interval_s < session_s else Judgement.BREAKS,
        )
    wanted = run.identity()
    wrong = [
        each for each in beats if (each.request.generation_id, each.request.member_id) != wanted
    ]
    run.check("heartbeats/identity", not wrong, f"{len(wrong)} heartbeats are not of {wanted}")
