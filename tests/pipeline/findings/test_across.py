"""What happened to many groups at once is one finding with its groups [pipeline/broker-restart]."""

import pytest

pytest.importorskip("pyarrow", reason="needs pip install coterie[pipeline]")

from tests.pipeline.findings.rows import START_S, Row, found, rebalance


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


def test_deployment_of_many_groups_is_information() -> None:
    (finding,) = found({"rebalances": [*quiet(9), *touched(5, "leave")]})
    assert (finding.rule, len(finding.groups)) == ("rollout", 5)


def test_busy_cluster_is_no_restart() -> None:
    """200 groups of which a few rebalance in every minute."""
    rows = [rebalance(f"g{(n * 7) % 200:03d}", 2 + n // 200, n * 20 + n % 13) for n in range(4000)]
    assert not found({"rebalances": rows})


def test_groups_that_start_together_are_nothing() -> None:
    rows = [rebalance(f"g{n}", 1, n) for n in range(8)]
    assert not found({"rebalances": rows})
