"""Clients of three libraries lose nothing and stay in their groups while brokers die."""

import pytest

from coterie.server.coordinators.runtime import CoordinatorRuntime
from coterie.testing import cluster
from tests.failover.run import PARTITIONS, REGISTER, TOPIC, Plan, Run


@pytest.mark.parametrize("plan", [Plan(moves=60, kills=0), Plan(moves=30, kills=6, seed=1)])
def test_nothing_acknowledged_is_lost_and_nobody_rebalances(plan: Plan) -> None:
    with cluster(topics={TOPIC: PARTITIONS, REGISTER[0]: 1}) as kafka:
        run = Run(kafka, plan)
        run.carry_out()
    assert run.ledger.violations == []
    assert run.ledger.counts["kills"] == plan.kills
    assert run.ledger.counts["records read back"] > 50
    assert all(len(history) > 50 for history in run.histories.values())


def test_coordinator_that_does_not_give_up_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CoordinatorRuntime, "unload_partition", lambda *_: None)
    with cluster(topics={TOPIC: PARTITIONS, REGISTER[0]: 1}) as kafka:
        run = Run(kafka, Plan(moves=100, kills=0, seed=3))
        run.carry_out()
    assert "two values must each come before the other" in str(run.ledger.violations)
