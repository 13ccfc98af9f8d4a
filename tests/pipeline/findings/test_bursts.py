"""Storms, deployments, and members that come and go [pipeline/rebalance-storm]."""

import pytest

pytest.importorskip("pyarrow", reason="needs pip install coterie[pipeline]")

from tests.pipeline.findings.rows import (
    HOUR_S,
    Row,
    found,
    lag,
    of_rule,
    rebalance,
    session,
)


def flapping(count: int) -> dict[str, list[Row]]:
    """Return two steady members and one that joins and expires `count` times, every 40 s."""
    sessions = [session("g", f"s{n}", -3600, None, f"steady-{n}") for n in range(2)]
    sessions += [session("g", f"f{n}", n * 80, n * 80 + 40, "flaky") for n in range(count)]
    rebalances = [rebalance("g", 1, -3600), rebalance("g", 2, -3500, joined=["s1"])]
    for n in range(count):
        rebalances += [
            rebalance(
                "g", 3 + 2 * n, n * 80, trigger_identity="flaky at h", trigger_member_key=f"f{n}"
            ),
            rebalance(
                "g", 4 + 2 * n, n * 80 + 40, trigger="session expiry", trigger_member_key=f"f{n}",
                trigger_identity="flaky at h",
            ),
        ]  # fmt: skip
    return {"rebalances": rebalances, "member_sessions": sessions}


def test_storm_names_the_client_that_caused_it_and_is_the_only_finding() -> None:
    """Each of its sessions has another member id [pipeline/one-finding-a-cause]."""
    (finding,) = found(flapping(6))
    assert (finding.rule, finding.subject, finding.value) == ("rebalance_storm", "flaky at h", 12)
    assert finding.evidence == (
        "12 rebalances within 7 min 20 s, 12 of them caused by flaky at h (mostly join); 3 members"
    )


def test_cause_of_a_storm_is_that_of_all_its_rebalances() -> None:
    """Not only of those after the fifth, which are the ones above the limit."""
    causes = ["join", "join", "join", "join", "leave", "leave", "leave"]
    rows = [
        rebalance("g", n + 2, n * 30, trigger=cause, trigger_identity="x at h")
        for n, cause in enumerate(causes)
    ]
    (finding,) = found({"rebalances": rows})
    assert finding.evidence.startswith("7 rebalances within 3 min 00 s, 7 of them caused by x at h")
    assert "(mostly join)" in finding.evidence


def deployed(members: int, *, again: int = 0) -> dict[str, list[Row]]:
    """Return a group whose members leave and join one after the other.

    Args:
        members: the number of members.
        again: how often the first one does so once more.
    """
    sessions, rebalances = [], []
    order = [*range(members), *[0] * again]
    ends = dict.fromkeys(range(members), -3600.0)
    for step, n in enumerate(order):
        leaves, joins = step * 40, step * 40 + 10
        sessions.append(session("g", f"m{n}-{step}", ends[n], leaves, f"c{n}"))
        ends[n] = joins
        identity = f"c{n} at h"
        rebalances += [
            rebalance("g", 2 * step + 2, leaves, trigger="leave", trigger_identity=identity),
            rebalance("g", 2 * step + 3, joins, trigger="join", trigger_identity=identity),
        ]
    sessions += [session("g", f"m{n}-new", began, None, f"c{n}") for n, began in ends.items()]
    return {"rebalances": rebalances, "member_sessions": sessions}


def test_deployment_of_every_member_is_no_storm() -> None:
    """[pipeline/deployment]"""
    (finding,) = found(deployed(6))
    assert (finding.rule, finding.subject, finding.value) == ("deployment", None, 12)
    assert "each of up to 6 members left or joined once" in finding.evidence


def test_member_that_goes_on_after_a_deployment_makes_it_a_storm() -> None:
    (finding,) = of_rule(found(deployed(6, again=8)), "rebalance_storm")
    assert finding.subject == "c0 at h"


def test_members_of_one_client_and_host_may_each_be_deployed_once() -> None:
    rows = deployed(4)
    for each in rows["member_sessions"]:
        each["identity"] = "c at h"
    for each in rows["rebalances"]:
        each["trigger_identity"] = "c at h"
    assert [each.rule for each in found(rows)] == ["deployment"]


def test_storm_is_relative_to_the_usual_rate() -> None:
    """A group with four rebalances in ten minutes all day long has no storm with five."""
    calm = [rebalance("g", n, n * 160) for n in range(2, 300)]
    more = [rebalance("g", 400 + n, 300 * 160 + n * 20) for n in range(3)]
    assert not found({"rebalances": [*calm, *more]})
    many = [rebalance("g", 400 + n, 300 * 160 + n * 20) for n in range(20)]
    assert [each.rule for each in found({"rebalances": [*calm, *many]})] == ["rebalance_storm"]


def test_cost_is_the_time_without_owner_times_the_lag() -> None:
    """[pipeline/cost]"""
    rows = flapping(6)
    (without,) = found(rows)
    # Twelve rebalances of 6 s without owner each, and a lag of 99 per partition at most.
    assert without.cost == pytest.approx(12 * 6)
    rows["lag_1m"] = [lag("g", 60, n, behind=99 * n, stalled=False) for n in range(3)]
    (with_lag,) = found(rows)
    assert with_lag.cost == pytest.approx(12 * 6 * 100)


def test_costliest_finding_of_the_worst_severity_is_first() -> None:
    """[pipeline/ranking]"""
    rows = flapping(6)
    other = [
        {**each, "group_id": "worse", "unowned_partition_ms": 60_000} for each in rows["rebalances"]
    ]
    deployment = deployed(6)["rebalances"]
    for each in deployment:
        each |= {"group_id": "later", "unowned_partition_ms": HOUR_S * 1000}
    for each in other:
        # Not together with the others, which would be a rollout.
        each["started_ts"] += 4 * HOUR_S * 1_000_000
    ranked = found(
        {
            "rebalances": [*rows["rebalances"], *other, *deployment],
            "member_sessions": [
                *rows["member_sessions"],
                *({**each, "group_id": "later"} for each in deployed(6)["member_sessions"]),
            ],
        }
    )
    assert [(each.rank, each.group_id) for each in ranked] == [
        (1, "worse"), (2, "g"), (3, "later"),
    ]  # fmt: skip


def test_starting_and_stopping_a_group_is_no_burst() -> None:
    """[pipeline/start-and-stop]"""
    starts = [
        rebalance("g", n + 1, n * 5, joined=[f"m{n}"], members=n + 1, trigger_identity=f"c{n} at h")
        for n in range(8)
    ]
    stops = [
        rebalance("g", n + 20, 7200 + n * 5, trigger="leave", left=[f"m{n}"], members=7 - n)
        for n in range(8)
    ]
    again = [{**each, "started_ts": each["started_ts"] + 9000 * 1_000_000} for each in starts]
    assert not found({"rebalances": [*starts, *stops, *again]})
    # All members are back within ten minutes, and so it was not stopped.
    soon = [{**each, "started_ts": each["started_ts"] + 7300 * 1_000_000} for each in starts]
    assert found({"rebalances": [*starts, *stops, *soon]})
