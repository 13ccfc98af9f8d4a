"""The checks of streams groups (KIP-1071), each on an observation that shows what it finds.

Rules: [client/checks-of-tasks].
"""

from collections.abc import Sequence

import pytest

from coterie.client.group_description import (
    DescribedMember,
    DescribedSubtopology,
    DescribedTopology,
    StreamsTasks,
    StreamsWork,
)
from coterie.client.health.checks import findings
from coterie.client.health.observation import Observation
from coterie.protocol.messages.consumer_group_facts import MemberReconciled, TargetComputed
from coterie.protocol.messages.journal_records import Fact
from tests.unit.client.test_health import COMMITTED, ENDS, NOW_MS, observed

Numbers = Sequence[int]


def member(
    name: str, active: Numbers, target: Numbers | None = None, standby: Numbers = (), epoch: int = 3
) -> DescribedMember:
    """Return a member with tasks of the subtopology 0, which reads `t`."""
    wanted = active if target is None else target

    def tasks(numbers: Numbers) -> StreamsTasks:
        return StreamsTasks(
            {"0": list(numbers)} if numbers else {}, {"0": list(standby)} if standby else {}, {}
        )

    return DescribedMember(
        name,
        None,
        name,
        "/10.0.0.1",
        {"t": list(active)} if active else {},
        member_epoch=epoch,
        target_assignment={"t": list(wanted)} if wanted else {},
        topics=["t"],
        streams=StreamsWork(f"process-{name}", None, 0, tasks(active), tasks(wanted)),
    )


def seen(
    *members: DescribedMember,
    earlier: Sequence[DescribedMember] | None = None,
    state: str = "Stable",
    source: int | None = 3,
    topology_epoch: int = 0,
    facts: Sequence[Fact] = (),
) -> Observation:
    """Return a group at one look, or at two if `earlier` is given."""
    healthy = observed(before=None if earlier is None else (COMMITTED, ENDS))
    subtopology = DescribedSubtopology("0", {"t": source}, {}, [], {"store": 3})
    group = healthy.group._replace(
        type="streams",
        protocol_type="streams",
        protocol="",
        state=state,
        members=list(members),
        group_epoch=3,
        assignment_epoch=3,
        topology=DescribedTopology(topology_epoch, [subtopology]),
    )
    return healthy._replace(
        group=group,
        earlier=None if earlier is None else group._replace(members=list(earlier)),
        facts=facts,
    )


def found(seen: Observation) -> list[tuple[str, str, str]]:
    return [
        (each.check, str(each.finding.severity), each.finding.subject) for each in findings(seen)
    ]


def asked(name: str, seconds: int) -> MemberReconciled:
    return MemberReconciled(
        at_ms=NOW_MS - seconds * 1000, member_id=name, client_id=name, epoch=2, previous_epoch=2,
        state="UNREVOKED_TASKS", previous_state="STABLE", added=0, revoked=2,
        group_type="streams",
    )  # fmt: skip


def computed(seconds: int) -> TargetComputed:
    return TargetComputed(
        at_ms=NOW_MS - seconds * 1000, epoch=3, assignor="sticky", member_count=2,
        changed_members=2, moved_partitions=1, group_type="streams",
    )  # fmt: skip


def test_group_at_rest_has_no_finding() -> None:
    """Neither has one with more tasks for some members than for others."""
    for members in (
        [member("a", [0, 1, 2])],
        [member("a", [0], standby=[1]), member("b", [1], standby=[0]), member("c", [2])],
    ):
        assert found(seen(*members)) == []


HAS = (member("a", [0, 1, 2], [0, 1], epoch=2), member("b", [], [2]))
# What a member was asked for is not in its description any more.
ASKED = (member("a", [0, 1], epoch=2), member("b", [], [2]))
FOUND: list[tuple[str, Observation, str, str, str]] = [
    (
        "held-back-tasks",
        seen(*HAS, state="Reconciling"),
        "warning",
        "a",
        "a has not given up 1 task, and b waits for tasks. It has sent no heartbeat",
    ),
    (
        "held-back-tasks",
        seen(*HAS, state="Reconciling", facts=[computed(40)]),
        "error",
        "a",
        "has not given up 1 task for 40 s",
    ),
    (
        "held-back-tasks",
        seen(*ASKED, state="Reconciling", facts=[computed(9), asked("a", 8)]),
        "warning",
        "a",
        "has not given up 2 tasks for 8 s",
    ),
    (
        "held-back-tasks",
        seen(*ASKED, state="Reconciling", facts=[computed(50), asked("a", 40)]),
        "error",
        "a",
        "It was asked for them, and has not reported",
    ),
    (
        "topology-not-ready",
        seen(member("a", []), state="NotReady", source=None),
        "error",
        "t",
        "1 source topic of the topology does not exist",
    ),
    (
        "topology-not-ready",
        seen(member("a", []), state="NotReady"),
        "error",
        "",
        "internal topics are missing, or topics that are read together",
    ),
    (
        "unequal-topologies",
        seen(member("a", [0, 1, 2]), topology_epoch=1),
        "warning",
        "a",
        "1 member has another topology epoch than the group, which is at 1.",
    ),
    (
        "members-without-tasks",
        seen(member("a", [0, 1, 2]), member("b", [])),
        "warning",
        "b",
        "1 member has no task: the group has 2 members for 3 active tasks.",
    ),
]


@pytest.mark.parametrize(
    ("check", "observation", "severity", "subject", "cause"), FOUND, ids=[each[0] for each in FOUND]
)
def test_check_finds(
    check: str, observation: Observation, severity: str, subject: str, cause: str
) -> None:
    assert found(observation) == [(check, severity, subject)]
    assert cause in findings(observation)[0].finding.cause


def test_members_that_do_not_follow_are_one_finding() -> None:
    """Without a journal it is not known who was asked."""
    members = member("a", [0, 1], epoch=2), member("b", [], [2])
    behind = seen(*members, earlier=members, state="Reconciling")
    assert found(behind) == [("stale-epoch", "warning", "a")]
    known = seen(*members, earlier=members, state="Reconciling", facts=[asked("a", 20)])
    assert found(known) == [("held-back-tasks", "warning", "a")]


def test_tasks_that_are_given_up_between_the_looks_are_no_finding() -> None:
    before = member("a", [0, 1, 2], [0, 1]), member("b", [], [2])
    now = member("a", [0, 1]), member("b", [], [2])
    assert found(seen(*now, earlier=before, state="Reconciling")) == []


def test_partitions_without_an_owner() -> None:
    assert ("unassigned-partitions", "error", "t-2") in found(seen(member("a", [0, 1])))
