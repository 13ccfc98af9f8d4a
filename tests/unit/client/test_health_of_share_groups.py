"""The checks of share groups (KIP-932), each on an observation that shows what it finds.

Rules: [client/checks-of-shares].
"""

from collections.abc import Mapping, Sequence

import pytest

from coterie.client.cluster import TopicPartition
from coterie.client.group_description import DescribedMember
from coterie.client.health.checks import findings
from coterie.client.health.observation import Observation
from coterie.client.offsets import Committed
from coterie.client.progress import Sample
from coterie.client.share_groups import StartOffset
from coterie.pipeline.findings.finding import Finding
from tests.unit.client.test_health import observed, topic

Shared = Mapping[TopicPartition, StartOffset]

T0, T1 = ("t", 0), ("t", 1)
MEMBER = DescribedMember("a", None, "a", "/10.0.0.1", {"t": [0, 1]}, topics=["t"], member_epoch=3)
DONE = {T0: StartOffset(100, 0, 0), T1: StartOffset(100, 0, 0)}


def seen(
    shared: Shared = DONE,
    before: Shared | None = None,
    *,
    ends: tuple[int, int] = (100, 100),
    members: Sequence[DescribedMember] = (MEMBER,),
    state: str = "Stable",
    judged: Sequence[Finding] = (),
) -> Observation:
    """Return a share group that reads two partitions, at one look or, with `before`, at two."""

    def sample(at_s: float, at: Shared, ends: tuple[int, int]) -> Sample:
        known = {each: Committed(s.offset, 0, "") for each, s in at.items() if s.offset is not None}
        return Sample(at_s, {"g": known}, dict(zip((T0, T1), ends, strict=True)), {"g": at})

    healthy = observed()
    group = healthy.group._replace(
        type="share", protocol_type="share", state=state, members=list(members)
    )
    return healthy._replace(
        group=group,
        earlier=None if before is None else group,
        before=None if before is None else sample(90, before, (100, 100)),
        look=healthy.look._replace(
            groups={"g": group}, sample=sample(100, shared, ends), topics={"t": topic("t", 2)}
        ),
        judged=judged,
    )


def of_rule(rule: str) -> Observation:
    return seen(judged=[Finding(rule, "g", 0, 1, 1, "t-0", 1, "what was seen")])


BEHIND = {T0: StartOffset(40, 0, 60), T1: StartOffset(100, 0, 0)}

FOUND = [
    (
        "not-processing",
        seen(BEHIND, BEHIND),
        "error",
        "t-0",
        "No record was done with in 10 s although 60 records wait in 1 partition.",
    ),
    (
        "no-share-state",
        seen({T0: DONE[T0]}, {T0: DONE[T0]}),
        "error",
        "t-1",
        "1 partition has no share state, also 10 s earlier, so no member gets records of it.",
    ),
    ("poison-records", of_rule("poison_record"), "error", "t-0", "what was seen."),
    ("near-delivery-limit", of_rule("near_delivery_limit"), "warning", "t-0", "what was seen."),
    ("expired-locks", of_rule("expired_locks"), "warning", "t-0", "what was seen."),
    ("start-offset-stands", of_rule("start_offset_stands"), "warning", "t-0", "what was seen."),
]


@pytest.mark.parametrize(
    ("check", "observation", "severity", "subject", "cause"), FOUND, ids=[each[0] for each in FOUND]
)
def test_check_finds(
    check: str, observation: Observation, severity: str, subject: str, cause: str
) -> None:
    (found,) = findings(observation)
    assert (found.check, found.finding.severity) == (check, severity)
    assert found.finding.subject == subject
    assert cause in found.finding.cause
    assert found.finding.remedy.endswith(".")
    assert findings(observation, ignored=[check]) == []


def test_a_group_that_does_its_work_has_no_finding() -> None:
    assert findings(seen(DONE, DONE)) == []
    moved = {T0: StartOffset(70, 0, 40), T1: StartOffset(100, 0, 0)}
    assert findings(seen(moved, BEHIND, ends=(110, 100))) == []


def test_several_members_have_a_partition() -> None:
    other = MEMBER._replace(member_id="b")
    assert findings(seen(members=[MEMBER, other])) == []


def test_checks_of_other_groups_apply_where_they_make_sense() -> None:
    without = seen(BEHIND, members=[], state="Empty")
    assert [(each.check, each.finding.severity) for each in findings(without)] == [
        ("no-members", "warning")
    ]
    growing = seen({T0: StartOffset(41, 0, 1059), T1: DONE[T1]}, BEHIND, ends=(1100, 100))
    (found,) = findings(growing)
    assert found.check == "lag-grows"
    assert "more is produced than is done with" in found.finding.cause
