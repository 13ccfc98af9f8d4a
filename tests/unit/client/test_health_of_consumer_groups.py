"""The checks of consumer groups (KIP-848), each on an observation that shows what it finds.

Rules: [client/checks-of-epochs].
"""

from collections.abc import Sequence
from typing import Any

import pytest

from coterie.client.group_description import DescribedMember
from coterie.client.health.checks import findings
from coterie.client.health.observation import Observation
from coterie.pipeline.findings.of_journal import journal_findings
from coterie.protocol.messages.consumer_group_facts import (
    GroupEpochRaised,
    MemberReconciled,
    TargetComputed,
)
from coterie.protocol.messages.journal_records import Fact
from tests.unit.client.test_health import COMMITTED, ENDS, MINUTE_MS, NOW_MS, observed


def member(
    name: str, assigned: Sequence[int], target: Sequence[int] | None = None, **fields: Any
) -> DescribedMember:
    """Return a member of the newest epoch with partitions of `t`."""
    target = assigned if target is None else target
    values: dict[str, Any] = {"member_epoch": 3, "topics": ["t"], **fields}
    return DescribedMember(
        name, None, name, "/10.0.0.1", {"t": list(assigned)} if assigned else {},
        target_assignment={"t": list(target)} if target else {}, **values,
    )  # fmt: skip


def seen(
    *members: DescribedMember,
    earlier: Sequence[DescribedMember] | None = None,
    state: str = "Stable",
    epochs: tuple[int, int] = (3, 3),
    facts: Sequence[Fact] = (),
    seconds: float = 10,
) -> Observation:
    """Return a group at one look, or at two if `earlier` is given."""
    healthy = observed(before=None if earlier is None else (COMMITTED, ENDS))
    epoch, target_epoch = epochs
    group = healthy.group._replace(
        type="consumer", protocol="uniform", state=state, members=list(members),
        group_epoch=epoch, assignment_epoch=target_epoch,
    )  # fmt: skip
    return healthy._replace(
        group=group,
        earlier=None if earlier is None else group._replace(members=list(earlier)),
        before=None if earlier is None else healthy.sample._replace(
            at_s=100 - seconds, committed={"g": {}}, ends=ENDS
        ),
        facts=facts,
        judged=journal_findings({"g": facts}, NOW_MS)["g"] if facts else (),
    )  # fmt: skip


def reconciled(name: str, state: str, seconds: int) -> MemberReconciled:
    return MemberReconciled(
        at_ms=NOW_MS - seconds * 1000, member_id=name, client_id=name, epoch=2, previous_epoch=2,
        state=state, previous_state="STABLE", added=0, revoked=1,
    )  # fmt: skip


def raised(minutes: int) -> GroupEpochRaised:
    return GroupEpochRaised(
        at_ms=NOW_MS - minutes * MINUTE_MS, epoch=30 - minutes, cause="subscription",
        member_count=2, member_id="b", client_id="b", client_host="/h",
    )  # fmt: skip


TARGET = TargetComputed(
    at_ms=NOW_MS - 40_000, epoch=3, assignor="uniform", member_count=2, changed_members=2,
    moved_partitions=1,
)  # fmt: skip
# `a` has partition 2, which `b` shall have.
HOLDS = member("a", [0, 1, 2], [0, 1], member_epoch=2), member("b", [], [2])
SETTLED = member("a", [0, 1]), member("b", [2])
STALE = member("a", [0, 1], member_epoch=2), member("b", [2])
NOBODY = member("c", [], topics=[])
PATTERN = member("c", [], topics=[], regex="paid.*")


@pytest.mark.parametrize(
    "healthy",
    [
        seen(*SETTLED),
        seen(*SETTLED, earlier=SETTLED),
        # A handover that has begun since the first look, and a member that has followed since.
        seen(*HOLDS, earlier=SETTLED, state="Reconciling"),
        seen(*SETTLED, earlier=STALE),
        # Looks that are closer than heartbeats.
        seen(*STALE, earlier=STALE, state="Reconciling", seconds=2),
        seen(*SETTLED, earlier=SETTLED, state="Assigning", epochs=(4, 3), seconds=2),
        seen(*SETTLED, earlier=SETTLED, state="Assigning", epochs=(3, 3)),
        # A member with a pattern that matches the same topics, and a classic one.
        seen(member("a", [0, 1], regex="t.*"), member("b", [2], is_classic=True)),
    ],
)
def test_healthy_group_has_no_findings(healthy: Observation) -> None:
    assert findings(healthy) == []


FOUND: list[tuple[str, Observation, str, str, str]] = [
    (
        "held-back-partitions",
        seen(*HOLDS, state="Reconciling"),
        "warning",
        "t-2",
        "a has not given up 1 partition, for which b waits. It is asked with its next heartbeat",
    ),
    (
        "held-back-partitions",
        seen(
            *HOLDS, earlier=HOLDS, state="Reconciling",
            facts=[TARGET, reconciled("a", "UNREVOKED_PARTITIONS", 35)],
        ),
        "error",
        "t-2",
        "for 35 s, for which b waits. It was asked for them, and has not reported that it gave",
    ),
    (
        "held-back-partitions",
        seen(
            *HOLDS, earlier=HOLDS, state="Reconciling",
            facts=[reconciled("a", "STABLE", 50), TARGET],
        ),
        "error",
        "t-2",
        "for 40 s, for which b waits. It has sent no heartbeat",
    ),
    (
        "held-back-partitions",
        seen(HOLDS[0]._replace(member_epoch=-2), HOLDS[1], state="Reconciling"),
        "warning",
        "t-2",
        "It has left as a static member",
    ),
    (
        "held-back-partitions",
        seen(*HOLDS, earlier=HOLDS, state="Reconciling"),
        "warning",
        "t-2",
        "It had them 10 s earlier, too.",
    ),
    (
        "stale-epoch",
        seen(*STALE, earlier=STALE, state="Reconciling"),
        "warning",
        "a",
        "1 member is at epoch 2, and the target has epoch 3, also 10 s earlier",
    ),
    (
        "target-not-computed",
        seen(*SETTLED, earlier=SETTLED, state="Assigning", epochs=(4, 3)),
        "warning",
        "",
        "The group is at epoch 4, and its target is that of epoch 3, also 10 s earlier",
    ),
    (
        "empty-subscription",
        seen(*SETTLED, NOBODY),
        "warning",
        "c",
        "1 member subscribes to nothing",
    ),
    (
        "pattern-without-topics",
        seen(*SETTLED, PATTERN),
        "warning",
        "c",
        "The pattern paid.* matches no topic",
    ),
    (
        "unsettled-epochs",
        seen(*SETTLED, facts=[raised(minutes) for minutes in range(12, 2, -1)]),
        "error",
        "b at h",
        "10 of them because of: subscription; 10 of them by b at h",
    ),
    (
        "unassigned-partitions",
        seen(member("a", [0, 1])),
        "error",
        "t-2",
        "1 partition has no owner",
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("check", "observation", "severity", "subject", "cause"), FOUND, ids=[each[0] for each in FOUND]
)
def test_check_finds(
    check: str, observation: Observation, severity: str, subject: str, cause: str
) -> None:
    (found,) = findings(observation)
    assert (found.group_id, found.check, found.finding.severity) == ("g", check, severity)
    assert found.finding.subject == subject
    assert cause in found.finding.cause
    assert found.finding.remedy.endswith(".")
    assert findings(observation, ignored=[check]) == []


def test_remedies_do_not_name_what_only_classic_groups_have() -> None:
    (unassigned,) = findings(seen(member("a", [0, 1])))
    assert "leader" not in unassigned.finding.remedy
    uneven = findings(seen(member("a", [0, 1, 2]), member("b", [])))
    assert ["uniform (group.remote.assignor)" in each.finding.remedy for each in uneven] == [True]
