"""A storm with a culprit is found whatever other groups do at that time [pipeline/broker-restart].

Eight groups are an hour old. One member of `flap` comes and goes six times in 54 s. In some of the
others a member leaves, and its successor joins 15 s later.
"""

import pytest

pytest.importorskip("pyarrow", reason="needs pip install coterie[pipeline]")

from coterie.pipeline.findings.finding import Finding
from tests.pipeline.findings.rows import Row, found, rebalance, session

FLAPS = 6
FLAP_S = 54 / (2 * FLAPS - 1)


def _flap() -> dict[str, list[Row]]:
    sessions = [session("flap", f"s{n}", -3600, None, f"steady{n}") for n in range(2)]
    rebalances = []
    for n in range(FLAPS):
        begin, end = 2 * n * FLAP_S, (2 * n + 1) * FLAP_S
        sessions.append(session("flap", f"x{n}", begin, end, "x", exit_kind="leave"))
        caused = {"trigger_identity": "x at h", "trigger_member_key": f"x{n}"}
        rebalances += [
            rebalance("flap", 3 + 2 * n, begin, joined=[f"x{n}"], **caused),
            rebalance("flap", 4 + 2 * n, end, trigger="leave", left=[f"x{n}"], members=2, **caused),
        ]
    return {"rebalances": rebalances, "member_sessions": sessions}


def _handover(group: str, at_s: float) -> dict[str, list[Row]]:
    """Return a group of two members of which one leaves, and whose successor joins 15 s later."""
    return {
        "rebalances": [
            rebalance(group, 3, at_s, trigger="leave", left=["b"], members=1,
                      trigger_identity="b at h", trigger_member_key="b"),
            rebalance(group, 4, at_s + 15, joined=["c"], members=2,
                      trigger_identity="c at h", trigger_member_key="c"),
        ],
        "member_sessions": [
            session(group, "a", -3600, None, "a"),
            session(group, "b", -3590, at_s, "b", exit_kind="leave"),
            session(group, "c", at_s + 15, None, "c"),
        ],
    }  # fmt: skip


def _cluster(handovers: int) -> list[Finding]:
    rows = _flap()
    groups = ["flap"]
    for number in range(7):
        group = f"other{number}"
        groups.append(group)
        if number < handovers:
            other = _handover(group, 5 + number * 9)
        else:
            other = {
                "member_sessions": [
                    session(group, "a", -3600, None),
                    session(group, "b", -3590, None),
                ]
            }
        for table, added in other.items():
            rows[table] += added
    for group in groups:
        rows["rebalances"] += [
            rebalance(group, 1, -3600, joined=["a"], members=1),
            rebalance(group, 2, -3590, joined=["b"], members=2),
        ]
    return found(rows)


@pytest.mark.parametrize("handovers", [0, 2, 3, 4, 7])
def test_storm_names_its_culprit_beside_others(handovers: int) -> None:
    (finding,) = _cluster(handovers)
    assert (finding.rule, finding.group_id, finding.subject) == (
        "rebalance_storm",
        "flap",
        "x at h",
    )
    assert finding.evidence.startswith("12 rebalances within 54.0 s, 12 of them caused by x at h")


def test_one_join_in_each_of_many_groups_is_no_rollout() -> None:
    """Seven groups with one join each over 82 s: nothing was replaced."""
    rebalances, sessions = [], []
    for number in range(7):
        group = f"g{number}"
        sessions += [
            session(group, "a", -3600, None), session(group, "b", number * 13.6, None, "b"),
        ]  # fmt: skip
        rebalances += [
            rebalance(group, 1, -3600, joined=["a"], members=1),
            rebalance(group, 2, number * 13.6, joined=["b"], trigger_identity="b at h"),
        ]
    assert not found({"rebalances": rebalances, "member_sessions": sessions})
