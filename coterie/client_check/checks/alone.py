"""One member alone: the first scenario, which also shows what the client is."""

from itertools import pairwise

from coterie.assignors import TopicPartition
from coterie.client_check.conversation import NEVER, ClientExchange
from coterie.client_check.model import Check, Judgement, partitions_text, scenario
from coterie.client_check.run import PARTITIONS, RECORDS, TOPIC, Run
from coterie.conversation.subscriptions import decoded_assignment
from coterie.protocol.errors import ErrorCode, MalformedFrame
from coterie.protocol.messages.consumer_protocol import decode_subscription

GIVEN_ID_SINCE = 4
SOFTWARE_SINCE = 3
# Sessions shorter than three heartbeats end when one heartbeat is lost.
_HEARTBEATS_A_SESSION = 3
# Enough for a client that commits every five seconds.
_COMMIT_LIMIT_S = 8.0
# The reading of a client that nothing holds up.
_READ_LIMIT_S = 30.0


@scenario(
    Check(
        "connecting/asks-for-versions",
        "The client asks for the broker's versions before other requests.",
        "KIP-35; [framing/served-versions]",
    ),
    Check(
        "connecting/states-its-software",
        "ApiVersions carries the name and the version of the client library.",
        "KIP-511; [framing/client-software]",
    ),
    Check(
        "connecting/keeps-to-announced-versions",
        "Every request has a version that the broker announces.",
        "KIP-35; [framing/unknown-version]",
    ),
    Check(
        "connecting/well-formed-requests",
        "Every request can be decoded to its last byte.",
        "[framing/malformed-frame]",
    ),
    Check(
        "coordinator/looks-it-up",
        "The client asks which broker coordinates the group before it joins.",
        "KIP-98; [coordinator/find-coordinator]",
    ),
    Check(
        "joining/uses-given-id",
        "After MEMBER_ID_REQUIRED the client joins again with the id that it was given.",
        "KIP-394; [joining/member-id-required]",
    ),
    Check(
        "joining/sends-subscription",
        "JoinGroup carries the subscribed topics as a consumer's subscription.",
        "[consumer-protocol/subscription]",
    ),
    Check(
        "joining/states-timeouts",
        "The session timeout is at least a second, and a rebalance may take at least as long.",
        "KIP-62; [joining/updated-timeouts]",
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
    Check(
        "positions/asks-for-committed",
        "The client fetches the committed offset of a partition before it reads it.",
        "[offsets/fetch]",
    ),
    Check(
        "positions/resets-without-offset",
        "Without a committed offset the client starts at an offset that it has looked up.",
        "KIP-79; [data-plane/list-offsets]",
    ),
    Check(
        "fetching/only-assigned",
        "The client reads the assigned partitions, all of them and no others.",
        "[syncing/leader-assignment]",
    ),
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
    Check(
        "committing/next-offset",
        "A committed offset is that of the next record to read, and never beyond.",
        "[offsets/commit-record]",
        ("commits",),
    ),
    Check(
        "reading/each-record-once",
        "The program reads every record once, in the order of its partition.",
        "[data-plane/fetch-offset]",
        ("prints",),
    ),
    Check(
        "closing/commits",
        "At its end the client commits what it has read, before it leaves.",
        "KIP-266, close() of Kafka's consumer",
        ("commits", "ends"),
    ),
    Check(
        "closing/leaves",
        "At its end a dynamic member leaves the group.",
        "[sessions/leave]",
        ("ends",),
    ),
    Check(
        "closing/ends",
        "The program ends within 15 s after SIGTERM.",
        "the contract of check-client",
        ("ends",),
    ),
)
async def alone(run: Run) -> None:
    """A member alone reads a topic and ends."""
    await run.start()
    await run.until(lambda: run.talk.exchanges, 30.0)
    sync = await run.stable()
    await _read_to(run, RECORDS)
    for partition in range(PARTITIONS):
        await run.broker.produce(TOPIC, partition, [f"{partition}-late"])
    await _read_to(run, RECORDS + 1)
    _describe(run)
    await run.until(lambda: len(run.talk.of("Heartbeat")) > 1, _READ_LIMIT_S)
    await run.until(lambda: run.talk.first("OffsetCommit"), _COMMIT_LIMIT_S)
    for partition in range(PARTITIONS):
        await run.broker.produce(TOPIC, partition, [f"{partition}-last"])
    await _read_to(run, RECORDS + 2)
    stopped = run.talk.now
    is_ended = await run.stop()
    _describe(run, stopped)
    _judge_start(run)
    _judge_joining(run, sync)
    _judge_reading(run, sync, stopped)
    _judge_heartbeats(run, sync)
    _judge_end(run, stopped, is_ended=is_ended)


async def _read_to(run: Run, end: int) -> None:
    """Wait until every partition is read to an offset, and its records are printed."""

    def is_read() -> bool:
        ends = dict.fromkeys(run.partitions(), -1) | run.newest_positions()
        if any(position < end for position in ends.values()):
            return False
        printed = {each.partition: each.offset for each in run.records()}
        return not printed or all(offset + 1 >= end for offset in printed.values())

    await run.reached(is_read, f"read every partition to offset {end}", _READ_LIMIT_S)


def _describe(run: Run, stopped: int = NEVER) -> None:
    """Note what the client is."""
    profile, talk = run.profile, run.talk
    for each in talk.exchanges:
        name = each.api.kafka_name
        profile.versions[name] = max(profile.versions.get(name, -1), each.version)
    asked = [each for each in talk.of("ApiVersions") if each.version >= SOFTWARE_SINCE]
    if asked:
        request = asked[-1].request
        names = (request.client_software_name, request.client_software_version)
        profile.software = " ".join(names).strip()
    joined = talk.last("JoinGroup")
    assert joined is not None, "it is stable"
    request = joined.request
    profile.protocols = tuple(each.name for each in request.protocols)
    profile.session_timeout_ms = request.session_timeout_ms
    profile.rebalance_timeout_ms = request.rebalance_timeout_ms
    profile.prints = bool(run.records())
    profile.commits = talk.first("OffsetCommit") is not None
    beats = talk.of("Heartbeat")
    gaps = [later.at_s - one.at_s for one, later in pairwise(beats)]
    profile.heartbeat_interval_s = round(max(gaps), 3) if gaps else None
    if stopped != NEVER:
        left = talk.first("LeaveGroup", after=stopped) is not None
        profile.ends = run.program.exit_code == 0 or (run.program.exit_code is not None and left)


def _judge_start(run: Run) -> None:
    talk = run.talk
    first = talk.exchanges[0]
    asked = talk.of("ApiVersions")
    run.check(
        "connecting/asks-for-versions",
        first.api.kafka_name == "ApiVersions",
        "it never asks for them" if not asked else f"its first request is {first.api.kafka_name}",
        Judgement.DIFFERS,
    )
    run.check(
        "connecting/states-its-software",
        run.profile.software,
        f"its newest ApiVersions is v{run.profile.versions.get('ApiVersions', -1)}, without a name",
        Judgement.DIFFERS,
    )
    malformed = [each.text for each in talk.of_kind("malformed")]
    refused = [each for each in malformed if "not announced" in each]
    run.check("connecting/keeps-to-announced-versions", not refused, "; ".join(refused[:3]))
    wrong = [each for each in malformed if "not announced" not in each]
    run.check("connecting/well-formed-requests", not wrong, "; ".join(wrong[:3]))
    joined = talk.first("JoinGroup")
    found = talk.first("FindCoordinator")
    assert joined is not None, "it is stable"
    run.check(
        "coordinator/looks-it-up",
        found is not None and found.place < joined.place,
        "it sends JoinGroup without FindCoordinator",
    )


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


def _judge_reading(run: Run, sync: ClientExchange, stopped: int) -> None:
    talk = run.talk
    asked = talk.first("OffsetFetch", after=sync.place)
    fetch = talk.first("Fetch", after=sync.answered_place)
    assert fetch is not None, "it is stable"
    run.check(
        "positions/asks-for-committed",
        asked is not None and asked.place < fetch.place,
        "it fetches records without OffsetFetch",
    )
    firsts = run.first_positions()
    looked_up = talk.first("ListOffsets") is not None
    run.check(
        "positions/resets-without-offset",
        looked_up and all(0 <= offset <= RECORDS for offset in firsts.values()),
        f"it starts at {sorted(firsts.values())} " + ("" if looked_up else "without ListOffsets"),
        Judgement.BREAKS if looked_up else Judgement.DIFFERS,
    )
    fetched = run.fetched(sync.answered_place)
    run.check(
        "fetching/only-assigned",
        fetched == run.partitions(),
        f"assigned are {partitions_text(run.partitions())}, fetched {partitions_text(fetched)}",
    )
    records = [(each.partition, each.offset) for each in run.records()]
    wanted = [(partition, offset) for partition in range(PARTITIONS) for offset in _offsets(firsts)]
    in_order = sorted(records, key=lambda each: each[0])
    run.check(
        "reading/each-record-once",
        in_order == wanted,
        f"{len(set(wanted) - set(records))} records are missing,"
        f" {len(records) - len(set(records))} came twice",
    )
    commits = talk.of("OffsetCommit", before=stopped)
    generation, member_id = run.identity()
    wrong = [
        each
        for each in talk.of("OffsetCommit")
        if (each.request.generation_id_or_member_epoch, each.request.member_id)
        != (generation, member_id)
    ]
    run.check(
        "committing/identity",
        not wrong,
        f"{len(wrong)} commits without generation {generation} and member id {member_id}",
    )
    beyond = [each for each in commits if _beyond(run, each)]
    run.check(
        "committing/next-offset",
        not beyond,
        f"{len(beyond)} commits lie beyond what the client had read",
    )


def _offsets(firsts: dict[TopicPartition, int]) -> range:
    return range(min(firsts.values(), default=0), RECORDS + 2)


def _beyond(run: Run, commit: ClientExchange) -> list[TopicPartition]:
    """Return the partitions whose committed offset lies behind all that had been fetched."""
    ends: dict[TopicPartition, int] = {}
    for fetch in run.talk.of("Fetch", before=commit.place):
        ends |= run.positions(fetch)
        if fetch.response is None or fetch.answered_place > commit.place:
            continue
        for topic in fetch.response.responses:
            for each in topic.partitions:
                if each.records:
                    partition = TopicPartition(run.topic_name(topic), each.partition_index)
                    ends[partition] = max(ends.get(partition, 0), each.high_watermark)
    return [
        partition
        for partition, offset in run.committed(commit).items()
        if offset > ends.get(partition, 0)
    ]


def _judge_heartbeats(run: Run, sync: ClientExchange) -> None:
    beats = run.talk.of("Heartbeat", after=sync.place)
    session_s = run.profile.session_timeout_ms / 1000
    interval_s = run.profile.heartbeat_interval_s
    name = "heartbeats/in-time"
    if interval_s is None:
        run.verdict(name, Judgement.BREAKS, f"{len(beats)} heartbeats within {_READ_LIMIT_S:g} s")
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


def _judge_end(run: Run, stopped: int, *, is_ended: bool) -> None:
    code = run.program.exit_code
    run.check("closing/ends", is_ended, "it still runs")
    left = run.talk.first("LeaveGroup", after=stopped)
    run.check("closing/leaves", left, f"it ended with {code} without LeaveGroup", Judgement.DIFFERS)
    limit = NEVER if left is None else left.place
    committed = run.all_committed(before=limit)
    run.check(
        "closing/commits",
        set(committed.values()) == {RECORDS + 2} and len(committed) == PARTITIONS,
        f"the records end at {RECORDS + 2}, committed is {sorted(committed.values())}",
        Judgement.DIFFERS,
    )
