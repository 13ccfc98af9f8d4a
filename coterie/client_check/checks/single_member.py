"""One member alone reads a topic and ends: the story, and what is judged of it in both protocols.

It is the first scenario of a protocol, which also shows what the client is.
"""

from itertools import pairwise
from typing import NamedTuple

from coterie.assignors.model import TopicPartition
from coterie.client_check.conversation import NEVER, ClientExchange
from coterie.client_check.model import Check, Judgement, partitions_text
from coterie.client_check.run import PARTITIONS, RECORDS, TOPIC, Run
from coterie.protocol.messages.join_group import JoinGroupRequest

_SOFTWARE_SINCE = 3
# Enough for a client that commits every five seconds.
_COMMIT_LIMIT_S = 8.0
# The reading of a client that nothing holds up.
READ_LIMIT_S = 30.0

CONNECTING = (
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
        "KIP-35; [framing/served-versions]",
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
)
POSITIONS = (
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
)
READING = (
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
)
ENDS = Check(
    "closing/ends",
    "The program ends within 15 s after SIGTERM.",
    "the contract of check-client",
    ("ends",),
)


class Alone(NamedTuple):
    """What has come of the story.

    Attributes:
        given: the client's request that was answered with all partitions.
        stopped: the place at which the program was asked to end.
        is_ended: whether it has ended.
    """

    given: ClientExchange
    stopped: int
    is_ended: bool


async def play_alone(run: Run) -> Alone:
    """Let a member alone read a topic and end."""
    await run.start()
    await run.until(lambda: run.talk.exchanges, READ_LIMIT_S)
    given = await run.stable()
    await _read_to(run, RECORDS)
    for partition in range(PARTITIONS):
        await run.broker.produce(TOPIC, partition, [f"{partition}-late"])
    await _read_to(run, RECORDS + 1)
    _describe(run)
    await run.until(lambda: len(run.heartbeats()) > 1, READ_LIMIT_S)
    await run.until(lambda: run.talk.first("OffsetCommit"), _COMMIT_LIMIT_S)
    for partition in range(PARTITIONS):
        await run.broker.produce(TOPIC, partition, [f"{partition}-last"])
    await _read_to(run, RECORDS + 2)
    stopped = run.talk.now
    is_ended = await run.stop()
    _describe(run, stopped)
    return Alone(given, stopped, is_ended)


async def _read_to(run: Run, end: int) -> None:
    """Wait until every partition is read to an offset, and its records are printed."""

    def is_read() -> bool:
        ends = dict.fromkeys(run.partitions(), -1) | run.newest_positions()
        if any(position < end for position in ends.values()):
            return False
        printed = {each.partition: each.offset for each in run.records()}
        return not printed or all(offset + 1 >= end for offset in printed.values())

    await run.reached(is_read, f"read every partition to offset {end}", READ_LIMIT_S)


def _describe(run: Run, stopped: int = NEVER) -> None:
    """Note what the client is."""
    profile, talk = run.profile, run.talk
    for each in talk.exchanges:
        name = each.api.kafka_name
        profile.versions[name] = max(profile.versions.get(name, -1), each.version)
    asked = [each for each in talk.of("ApiVersions") if each.version >= _SOFTWARE_SINCE]
    if asked:
        request = asked[-1].request
        names = (request.client_software_name, request.client_software_version)
        profile.software = " ".join(names).strip()
    request = run.joins()[-1].request
    if isinstance(request, JoinGroupRequest):
        profile.protocols = tuple(each.name for each in request.protocols)
        profile.session_timeout_ms = request.session_timeout_ms
    profile.rebalance_timeout_ms = request.rebalance_timeout_ms
    profile.prints = bool(run.records())
    profile.commits = talk.first("OffsetCommit") is not None
    gaps = [later.at_s - one.at_s for one, later in pairwise(run.heartbeats())]
    profile.heartbeat_interval_s = round(max(gaps), 3) if gaps else None
    if stopped != NEVER:
        left = bool(run.membership.leaves(stopped))
        profile.ends = run.program.exit_code == 0 or (run.program.exit_code is not None and left)


def judge_connecting(run: Run) -> None:
    """Judge versions, frames, and how it found the coordinator."""
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
    joined = run.joins()[0]
    found = talk.first("FindCoordinator")
    run.check(
        "coordinator/looks-it-up",
        found is not None and found.place < joined.place,
        f"it sends {joined.api.kafka_name} without FindCoordinator",
    )


def judge_reading(run: Run, story: Alone) -> None:
    """Judge where it starts, what it reads and what it commits."""
    talk = run.talk
    given = story.given
    asked = talk.first("OffsetFetch", after=given.place)
    fetch = talk.first("Fetch", after=given.answered_place)
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
    fetched = run.fetched(given.answered_place)
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
    commits = talk.of("OffsetCommit", before=story.stopped)
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


def judge_end(run: Run, story: Alone, how: str) -> None:
    """Judge its end; `how` is what a member leaves with."""
    code = run.program.exit_code
    run.check("closing/ends", story.is_ended, "it still runs")
    left = next(iter(run.membership.leaves(story.stopped)), None)
    run.check("closing/leaves", left, f"it ended with {code} without {how}", Judgement.DIFFERS)
    limit = NEVER if left is None else left.place
    committed = run.all_committed(before=limit)
    run.check(
        "closing/commits",
        set(committed.values()) == {RECORDS + 2} and len(committed) == PARTITIONS,
        f"the records end at {RECORDS + 2}, committed is {sorted(committed.values())}",
        Judgement.DIFFERS,
    )
