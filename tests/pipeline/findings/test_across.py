"""What happened to many groups at once is one finding with its groups [pipeline/broker-restart]."""

import pytest

pytest.importorskip("pyarrow", reason="needs pip install coterie[pipeline]")

from tests.pipeline.findings.rows import START_S, Row, found, of_rule, rebalance, session


def quiet(groups: int) -> list[Row]:
    """Return groups that have rebalanced now and then, for a day."""
    return [
        rebalance(f"g{number:02d}", 2 + each, each * 14_400 + number * 613)
        for number in range(groups)
        for each in range(6)
    ]


def touched(groups: int, cause: str, times: int = 1) -> list[Row]:
    return [
        rebalance(f"g{number:02d}", 90 + each, 55_000 + number + each * 5, trigger=cause)
        for number in range(groups)
        for each in range(times)
    ]


def test_restart_that_touched_many_groups_is_one_finding() -> None:
    rows = [*quiet(13), *touched(12, "session expiry", 5)]
    (finding,) = found({"rebalances": rows})
    assert (finding.rule, finding.group_id, finding.value) == ("broker_restart", None, 12)
    assert finding.groups == tuple(f"g{number:02d}" for number in range(12))
    assert finding.evidence == (
        "12 of 13 groups rebalanced within 31.0 s: 60 of 60 rebalances by session expiry"
    )


def test_loaded_coordinator_explains_rebalances_of_members_that_come_back() -> None:
    loaded_ms = (START_S + 54_990) * 1000
    (finding,) = found({"rebalances": [*quiet(9), *touched(5, "join")]}, [loaded_ms])
    assert finding.rule == "broker_restart"
    assert "loaded its partitions at" in finding.evidence


def replaced(group: str, at_s: float, members: int = 2, apart_s: float = 20) -> list[Row]:
    """Return the sessions of a group whose members are replaced one after the other."""
    rows = []
    for number in range(members):
        end = at_s + number * apart_s
        rows += [
            session(group, f"old{number}", 0, end, f"c{number}"),
            session(group, f"new{number}", end + apart_s / 2, None, f"c{number}"),
        ]
    return rows


def test_rollout_replaces_all_members_of_many_groups() -> None:
    """[pipeline/rollout]"""
    rows = {"rebalances": [*quiet(9), *touched(5, "leave")]}
    assert not found(rows)
    sessions = [row for n in range(9) for row in replaced(f"g{n:02d}", 55_000 + n)[: 4 * (n < 5)]]
    (finding,) = found(rows | {"member_sessions": sessions})
    assert (finding.rule, finding.value) == ("rollout", 5)
    assert finding.evidence == "all members of 5 of 9 groups were replaced within 34.0 s"
    # In every group a member stays.
    sessions += [session(f"g{n:02d}", "stays", 0, None) for n in range(9)]
    assert not found(rows | {"member_sessions": sessions})


def test_rollouts_do_not_chain() -> None:
    """Every 40 s another group is deployed: at no time are there four within a minute."""
    sessions = [row for n in range(9) for row in replaced(f"g{n:02d}", 55_000 + 40 * n)]
    assert not found({"rebalances": quiet(9), "member_sessions": sessions})


def outage(silent_s: float) -> tuple[dict[str, list[Row]], list[int]]:
    """Return seven groups, and their commits: every 2 s, with a silence; then new sessions."""
    ends_s = 1000 + silent_s
    sessions, rebalances = [], []
    for number in range(7):
        group, at_s = f"g{number:02d}", ends_s + number * 0.102
        for member in range(2):
            sessions += [
                session(group, f"old{member}", 0, at_s, f"c{member}", exit_kind="session expiry"),
                session(group, f"new{member}", at_s, None, f"c{member}"),
            ]
        rebalances += [
            rebalance(group, 1, 0, joined=["old0", "old1"], members=2),
            rebalance(group, 2, at_s, trigger="members changed", members=2,
                      joined=["new0", "new1"], left=["old0", "old1"]),
        ]  # fmt: skip
    seconds = [*range(10, 1001, 2), *range(int(ends_s) + 5, 1300, 2)]
    rows = {"rebalances": rebalances, "member_sessions": sessions}
    return rows, [(START_S + each) * 1000 for each in seconds]


def test_outage_is_a_silence_after_which_all_sessions_are_new() -> None:
    """As on a Kafka that was killed [pipeline/outage]."""
    rows, commits_ms = outage(108)
    (finding,) = found(rows, commits_ms=commits_ms)
    assert (finding.rule, finding.value, finding.group_id) == ("broker_restart", 7, None)
    assert finding.evidence == (
        "no commit of any group for 1 min 48 s, then all members of 7 of 7 groups were replaced"
        " within 612 ms"
    )
    assert (finding.from_ms, finding.to_ms) == ((START_S + 1000) * 1000, 1_760_001_508_612)


def test_outage_lasts_until_the_last_group_is_replaced() -> None:
    """As on a Kafka that was killed: sessions of 45 s expired long after the first commit."""
    rows, commits_ms = outage(108)
    again_ms = [(START_S + each) * 1000 for each in range(1088, 1114, 2)]
    (finding,) = found(rows, commits_ms=sorted([*commits_ms, *again_ms]))
    assert "no commit of any group for 1 min 28 s" in finding.evidence
    assert "were replaced within 612 ms" in finding.evidence
    assert finding.to_ms == (START_S + 1108) * 1000 + 612


def test_silence_without_new_sessions_is_no_outage() -> None:
    """Producers that pause make all groups silent, too."""
    rows, commits_ms = outage(108)
    stays = [row for row in rows["member_sessions"] if row["member_key"].startswith("old")]
    stays = [row | {"last_seen_ts": None, "exit_kind": None} for row in stays]
    calm = [row for row in rows["rebalances"] if row["to_generation"] == 1]
    assert not found({"rebalances": calm, "member_sessions": stays}, commits_ms=commits_ms)


def test_replacement_of_a_few_groups_at_once_is_no_outage_while_others_commit() -> None:
    rows, commits_ms = outage(108)
    commits_ms = sorted({*commits_ms, *range(commits_ms[0], commits_ms[-1], 2000)})
    few = ("g00", "g01", "g02")
    rows = {name: [row for row in each if row["group_id"] in few] for name, each in rows.items()}
    steady = [session(f"s{n}", "m", 0, None) for n in range(6)]
    rows["member_sessions"] += steady
    found_ = found(rows, commits_ms=commits_ms)
    assert not of_rule(found_, "broker_restart")
    assert {each.rule for each in found_} == {"expired_member"}


def test_busy_cluster_is_no_restart() -> None:
    """200 groups of which a few rebalance in every minute."""
    rows = [rebalance(f"g{(n * 7) % 200:03d}", 2 + n // 200, n * 20 + n % 13) for n in range(4000)]
    assert not found({"rebalances": rows})


def test_groups_that_start_together_are_nothing() -> None:
    rows = [rebalance(f"g{n}", 1, n) for n in range(8)]
    assert not found({"rebalances": rows})
