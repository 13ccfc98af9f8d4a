"""The checks of `coterie groups check`, each on an observation that shows what it finds.

Rules: [client/checks].
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from coterie.address import Address
from coterie.client.cluster import TopicPartition
from coterie.client.group_description import DescribedMember, GroupDescription
from coterie.client.health.checks import CHECKS, Found, findings
from coterie.client.health.observation import Look, Observation
from coterie.client.nodes import Node
from coterie.client.offsets import Committed
from coterie.client.progress import Sample
from coterie.client.topics import Partition, Topic
from coterie.pipeline.findings.of_journal import journal_findings
from coterie.protocol.messages.journal_records import (
    Fact,
    MemberFenced,
    MemberJoined,
    MemberRemoved,
    RebalanceBegan,
    StaticMemberReplaced,
)
from coterie.protocol.messages.partition_facts import PartitionLoaded
from tests.pipeline.timeline.facts import flapping

NOW_MS = 1_000_000_000
HOUR_MS = 3_600_000
MINUTE_MS = 60_000

Offsets = Mapping[TopicPartition, int]


def consumer(
    name: str,
    topics: Sequence[str] = ("t",),
    version: int = 3,
    instance: str | None = None,
    **assignment: list[int],
) -> DescribedMember:
    return DescribedMember(
        member_id=name,
        group_instance_id=instance,
        client_id=name,
        host="/10.0.0.1",
        assignment=assignment,
        topics=list(topics),
        subscription_version=version,
    )


def described(state: str, members: Sequence[DescribedMember]) -> GroupDescription:
    return GroupDescription(
        group_id="g",
        exists=True,
        type="classic",
        state=state,
        protocol_type="consumer",
        protocol="range",
        coordinator=Node(1, Address("localhost", 9092)),
        members=list(members),
    )


def topic(name: str, count: int, leaderless: Sequence[int] = ()) -> Topic:
    partitions = [Partition(n, None if n in leaderless else 1, [1], [1]) for n in range(count)]
    return Topic(name, None, False, partitions, 0 if count else 3)


def sample(at_s: float, committed: Offsets, ends: Offsets) -> Sample:
    return Sample(
        at_s, {"g": {each: Committed(at, -1, "") for each, at in committed.items()}}, dict(ends)
    )


# A healthy group: two members, three partitions of one topic, a lag that does not grow.
MEMBERS = (consumer("a", t=[0, 1]), consumer("b", t=[2]))
COMMITTED = {("t", 0): 90, ("t", 1): 100, ("t", 2): 100}
ENDS = {("t", 0): 100, ("t", 1): 100, ("t", 2): 100}


def observed(
    *members: DescribedMember,
    state: str = "Stable",
    earlier_state: str = "Stable",
    committed: Offsets = COMMITTED,
    ends: Offsets = ENDS,
    before: tuple[Offsets, Offsets] | None = None,
    starts: Offsets | None = None,
    topics: Sequence[Topic] = (topic("t", 3),),
    facts: Sequence[Fact] | None = (),
    seconds: float = 10,
) -> Observation:
    members = members or (() if state == "Empty" else MEMBERS)
    look = Look(
        {"g": described(state, members)},
        sample(100, committed, ends),
        dict.fromkeys(ends, 0) if starts is None else dict(starts),
        {each.name: each for each in topics},
    )
    return Observation(
        group=look.groups["g"],
        earlier=None if before is None else described(earlier_state, members),
        before=None if before is None else sample(100 - seconds, *before),
        look=look,
        facts=facts,
        now_ms=NOW_MS,
        since_ms=NOW_MS - HOUR_MS,
        judged=journal_findings({"g": facts}, NOW_MS)["g"] if facts else (),
    )


def joined(member_id: str, **fields: Any) -> MemberJoined:
    values = {"at_ms": NOW_MS - MINUTE_MS, "client_id": member_id, "protocols": ["range"], **fields}
    return MemberJoined(
        member_id=member_id,
        client_host="/h",
        state="Empty",
        generation_id=0,
        member_count=1,
        session_timeout_ms=1,
        rebalance_timeout_ms=1,
        **values,
    )


LOADED = PartitionLoaded(at_ms=NOW_MS - 5 * MINUTE_MS - 10_000, partition=0, group_count=1)


def removed(member_id: str, cause: str = "session expiry", **fields: Any) -> MemberRemoved:
    return MemberRemoved(
        at_ms=NOW_MS - 5 * MINUTE_MS,
        cause=cause,
        member_id=member_id,
        client_id=member_id,
        client_host="/h",
        state="Stable",
        generation_id=1,
        member_count=1,
        was_leader=False,
        session_timeout_ms=10_000,
        **fields,
    )


def replaced(instance: str) -> StaticMemberReplaced:
    return StaticMemberReplaced(
        at_ms=NOW_MS,
        group_instance_id=instance,
        member_id="new",
        old_member_id="old",
        client_id="c",
        client_host="/h",
        generation_id=1,
        state="Stable",
        rebalances=False,
    )


def began(client_id: str, cause: str = "join") -> RebalanceBegan:
    return RebalanceBegan(
        at_ms=NOW_MS,
        cause=cause,
        previous_state="Stable",
        generation_id=1,
        member_count=1,
        timeout_ms=1,
        client_id=client_id,
    )


FENCED = MemberFenced(
    at_ms=NOW_MS,
    member_id="a",
    group_instance_id="i1",
    holder="b",
    generation_id=1,
    request="JoinGroup",
)
FENCED_FOR_EPOCH = MemberFenced(
    at_ms=NOW_MS,
    member_id="a",
    group_instance_id="i1",
    holder="a",
    generation_id=4,
    request="ConsumerGroupHeartbeat",
    error_code=110,
    said_epoch=3,
    known_epoch=4,
)
EXPIRED_STATIC = removed("a", group_instance_id="i1")
NEW_TOPIC = (topic("t", 3), topic("u", 1))


@pytest.mark.parametrize(
    "seen",
    [
        observed(),
        # With two looks: offsets move, and the lag grows by less than a commit interval explains.
        observed(before=({**COMMITTED, ("t", 0): 60}, {**ENDS, ("t", 0): 69})),
        observed(state="Empty", committed=ENDS),
        # An empty partition needs no commit.
        observed(committed={("t", 0): 90}, ends={("t", 0): 100, ("t", 1): 0, ("t", 2): 0}),
        # Members that left, and one that was removed by an administrator.
        observed(facts=[removed("a", "leave"), removed("b", "admin removal")]),
        observed(facts=[began("a")] * 10),
        observed(facts=[joined("a"), joined("b"), joined("gone", protocols=["sticky"])]),
        observed(facts=None),
        # The epoch of a member was over: nobody else has its instance id.
        observed(facts=[FENCED_FOR_EPOCH]),
    ],
)
def test_healthy_group_has_no_findings(seen: Observation) -> None:
    assert findings(seen) == []


# Each check, an observation that shows it, and parts of the finding.
FOUND: list[tuple[str, Observation, str, str, str]] = [
    ("stuck-rebalance", observed(state="PreparingRebalance"), "warning", "", "at the moment"),
    (
        "stuck-rebalance",
        observed(
            state="CompletingRebalance",
            earlier_state="PreparingRebalance",
            before=(COMMITTED, ENDS),
        ),
        "error",
        "",
        "10 s earlier it was PreparingRebalance",
    ),
    ("no-members", observed(state="Empty"), "warning", "", "a lag of 10 records."),
    (
        "no-members",
        observed(state="Empty", before=(COMMITTED, {**ENDS, ("t", 0): 93})),
        "error",
        "",
        "which grew by 7 in 10 s",
    ),
    (
        "unassigned-partitions",
        observed(consumer("a", t=[0, 2])),
        "error",
        "t-1",
        "1 partition has no owner",
    ),
    (
        "assigned-twice",
        observed(*MEMBERS, consumer("c", t=[1])),
        "error",
        "t-1",
        "read twice: a, c",
    ),
    (
        "assigned-missing-partitions",
        observed(consumer("a", t=[0, 1]), consumer("b", t=[2, 3])),
        "warning",
        "t-3",
        "1 assigned partition does not exist",
    ),
    (
        "no-leader",
        observed(topics=[topic("t", 3, leaderless=[1])]),
        "error",
        "t-1",
        "1 partition has no leader",
    ),
    (
        "not-committing",
        observed(before=(COMMITTED, {**ENDS, ("t", 0): 100})),
        "error",
        "t-0",
        "No commit in 10 s although 10 records wait in 1 partition, which a own",
    ),
    (
        "lag-grows",
        observed(before=({**COMMITTED, ("t", 0): 88}, {**ENDS, ("t", 0): 90})),
        "warning",
        "t-0",
        "grew by 8 records in 10 s, from 2 to 10",
    ),
    (
        "offset-out-of-range",
        observed(starts={("t", 0): 95, ("t", 1): 0, ("t", 2): 0}),
        "error",
        "t-0",
        "5 records were deleted by retention",
    ),
    (
        "offset-out-of-range",
        observed(ends={**ENDS, ("t", 2): 50}),
        "error",
        "t-2",
        "after the end of their partitions",
    ),
    (
        "never-committed",
        observed(committed={("t", 0): 90, ("t", 1): 100}),
        "warning",
        "t-2",
        "1 assigned partition has records but no committed offset",
    ),
    (
        "missing-topics",
        observed(*(each._replace(topics=["t", "gone"]) for each in MEMBERS)),
        "warning",
        "gone",
        "1 topic that does not exist",
    ),
    (
        "unequal-subscriptions",
        observed(
            consumer("a", t=[0, 1, 2]),
            consumer("b", topics=["u"], u=[0]),
            committed={**COMMITTED, ("u", 0): 1},
            ends={**ENDS, ("u", 0): 1},
            topics=NEW_TOPIC,
        ),
        "warning",
        "",
        "t by a; u by b",
    ),
    (
        "mixed-clients",
        observed(consumer("a", version=1, t=[0, 1]), MEMBERS[1]),
        "warning",
        "",
        "v1 by a; v3 by b",
    ),
    (
        "idle-members",
        observed(*(consumer(name, t=[n]) for n, name in enumerate("abc")), consumer("d")),
        "warning",
        "d",
        "1 member owns no partition: the group has 4 members for 3 partitions",
    ),
    (
        "idle-members",
        observed(consumer("a", t=[0, 1, 2]), consumer("b")),
        "warning",
        "b",
        "although there are enough partitions",
    ),
    (
        "uneven-assignment",
        observed(
            consumer("a", t=[0, 1, 2]),
            consumer("b", t=[3]),
            topics=[topic("t", 4)],
            committed={**COMMITTED, ("t", 3): 1},
            ends={**ENDS, ("t", 3): 1},
        ),
        "warning",
        "",
        "own 1 to 3 partitions",
    ),
    (
        "deleted-topics",
        observed(committed={**COMMITTED, ("gone", 0): 5, ("t", 7): 5}),
        "warning",
        "gone, t",
        "2 committed offsets belong to partitions that do not exist",
    ),
    (
        "unsubscribed-offsets",
        observed(
            committed={**COMMITTED, ("u", 0): 5}, ends={**ENDS, ("u", 0): 9}, topics=NEW_TOPIC
        ),
        "warning",
        "u",
        "1 committed offset of topics that no member subscribes to",
    ),
    (
        "missing-static-members",
        observed(facts=[joined("a", group_instance_id="i1"), EXPIRED_STATIC]),
        "error",
        "i1",
        "1 static member is missing, the first one since 5 minutes",
    ),
    ("fenced-members", observed(facts=[FENCED, FENCED]), "error", "i1", "2 requests were refused"),
    (
        "max-poll-exceeded",
        observed(facts=[removed("a", "leave", reason="consumer poll timeout has expired.")]),
        "error",
        "a at h",
        "In the last hour: did not poll within max.poll.interval.ms and left.",
    ),
    (
        "broker-restart",
        # Nothing was heard of the member since its group was loaded.
        observed(facts=[LOADED, removed("a", last_heard_ms=LOADED.at_ms)]),
        "warning",
        "",
        "In the last hour: did not come back: a at h; the coordinator loaded its partitions at",
    ),
    (
        "expired-member",
        observed(facts=[removed("a")]),
        "warning",
        "a at h",
        "In the last hour: sent no heartbeat and was removed without having left.",
    ),
    (
        "expired-member",
        # The static member came back.
        observed(facts=[EXPIRED_STATIC, joined("n", group_instance_id="i1")]),
        "warning",
        "i1",
        "was removed without having left; joined again at",
    ),
    (
        "rebalance-storm",
        observed(facts=flapping(NOW_MS - 10 * MINUTE_MS, 6, 40_000)),
        "error",
        "client-x at 127.0.0.1",
        "In the last hour: 12 rebalances within 7 min 20 s, 12 of them caused by client-x",
    ),
    (
        "flapping-member",
        observed(facts=flapping(NOW_MS - 50 * MINUTE_MS, 4, 200_000)),
        "warning",
        "client-x at 127.0.0.1",
        "In the last hour: joined and left 4 times within",
    ),
    (
        "unequal-assignors",
        observed(facts=[joined("a"), joined("b", protocols=["sticky", "range"])]),
        "warning",
        "",
        "range (a); sticky, range (b). The group uses one that all of them list, now range",
    ),
]


@pytest.mark.parametrize(
    ("check", "seen", "severity", "subject", "cause"), FOUND, ids=[each[0] for each in FOUND]
)
def test_check_finds(
    check: str, seen: Observation, severity: str, subject: str, cause: str
) -> None:
    (found,) = findings(seen)
    assert (found.group_id, found.check, found.finding.severity) == ("g", check, severity)
    assert found.finding.subject == subject
    assert cause in found.finding.cause
    assert found.finding.remedy.endswith(".")
    assert findings(seen, ignored=[check]) == []


def test_every_check_is_shown() -> None:
    from tests.unit.client.test_health_of_consumer_groups import FOUND as OF_CONSUMER_GROUPS
    from tests.unit.client.test_health_of_share_groups import FOUND as OF_SHARE_GROUPS
    from tests.unit.client.test_health_of_streams_groups import FOUND as OF_STREAMS_GROUPS

    shown = (*FOUND, *OF_CONSUMER_GROUPS, *OF_SHARE_GROUPS, *OF_STREAMS_GROUPS)
    assert {check for check, *_ in shown} == set(CHECKS)


def test_errors_come_first() -> None:
    found: list[Found] = findings(
        observed(committed={("t", 0): 90, ("t", 1): 100, ("gone", 0): 1}, facts=[FENCED])
    )
    assert [each.finding.severity for each in found] == ["error", "warning", "warning"]


def test_members_of_other_protocols_have_no_partitions_to_check() -> None:
    worker = consumer("w")._replace(topics=None, assignment=None)
    seen = observed(worker, committed={})
    assert findings(seen) == []


def test_long_lists_of_names_are_cut() -> None:
    gone: dict[TopicPartition, int] = {(f"gone-{n}", 0): 1 for n in range(8)}
    (found,) = findings(observed(committed={**COMMITTED, **gone}))
    assert found.finding.subject == "gone-0, gone-1, gone-2, gone-3, gone-4 and 3 more"
