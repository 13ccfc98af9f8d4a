"""The checks of streams groups (KIP-1071), each on an observation that shows what it finds.

Rules: [client/checks-of-tasks].
"""

from collections.abc import Sequence
from typing import Any

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


@pytest.mark.parametrize(
    ("facts", "severity", "words"),
    [
        ((), "warning", "has not given up 1 task, and b waits for tasks. It has sent no heartbeat"),
        ((computed(40),), "error", "has not given up 1 task for 40 s"),
        ((computed(9), asked("a", 8)), "warning", "has not given up 2 tasks for 8 s"),
        ((computed(50), asked("a", 40)), "error", "It was asked for them, and has not reported"),
    ],
)
def test_held_back_tasks(facts: Sequence[Fact], severity: str, words: str) -> None:
    # What a member was asked for is not in its description any more.
    has = [0, 1] if any(isinstance(each, MemberReconciled) for each in facts) else [0, 1, 2]
    members = member("a", has, [0, 1], epoch=2), member("b", [], [2])
    group = seen(*members, state="Reconciling", facts=facts)
    assert found(group) == [("held-back-tasks", severity, "a")]
    assert words in findings(group)[0].finding.cause


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


@pytest.mark.parametrize(("source", "subject"), [(None, "t"), (3, "")])
def test_topology_that_is_not_ready(source: int | None, subject: str) -> None:
    group = seen(member("a", []), state="NotReady", source=source)
    assert found(group) == [("topology-not-ready", "error", subject)]


def test_members_without_tasks_and_with_another_topology() -> None:
    group = seen(member("a", [0, 1, 2]), member("b", []), topology_epoch=1)
    assert found(group) == [
        ("unequal-topologies", "warning", "a, b"),
        ("members-without-tasks", "warning", "b"),
    ]


def test_partitions_without_an_owner() -> None:
    values: dict[str, Any] = {"state": "Stable"}
    assert ("unassigned-partitions", "error", "t-2") in found(seen(member("a", [0, 1]), **values))
