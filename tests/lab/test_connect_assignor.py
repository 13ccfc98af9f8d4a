"""The leader of Connect: the cases of Kafka's IncrementalCooperativeAssignorTest."""

from collections.abc import Iterable

from coterie.lab.machines.connect_assignor import (
    CONNECTOR,
    IncrementalAssignor,
    Round,
    Unit,
    assign_eager,
)

DELAY_MS = 300_000


def units_of(connectors: int = 2, tasks: int = 4) -> list[Unit]:
    """Return connectors and their tasks."""
    names = [f"connector{number}" for number in range(1, connectors + 1)]
    return [(name, CONNECTOR) for name in names] + [
        (name, number) for name in names for number in range(tasks)
    ]


class Cluster:
    """Workers that do what the leader says."""

    def __init__(self, *workers: str, delay_ms: int = DELAY_MS, backs_off: bool = True) -> None:
        self.units = units_of()
        self.running: dict[str, list[Unit]] = {worker: [] for worker in workers}
        self.leader = IncrementalAssignor(delay_ms, backs_off=backs_off)
        self.now_ms = 0
        self.generation = 0

    def round(self, *, obeyed: bool = True) -> Round:
        """Make a round; without `obeyed` its outcome reaches no worker."""
        self.generation += 1
        made = self.leader.assign(
            self.units, self.running, self.generation, self.generation - 1, self.now_ms
        )
        for worker in self.running if obeyed else ():
            kept = [each for each in self.running[worker] if each not in made.revoked[worker]]
            self.running[worker] = kept + made.assigned[worker]
        return made

    def loads(self) -> dict[str, tuple[int, int]]:
        """Return the number of connectors and tasks of each worker."""
        return {worker: count(units) for worker, units in self.running.items()}


def count(units: Iterable[Unit]) -> tuple[int, int]:
    """Return how many connectors and tasks there are."""
    connectors = sum(unit[1] == CONNECTOR for unit in units)
    return connectors, len(list(units)) - connectors


def test_task_assignment_when_worker_joins() -> None:
    cluster = Cluster("worker1")
    cluster.round()
    assert cluster.loads() == {"worker1": (2, 8)}
    cluster.running["worker2"] = []
    assert count(cluster.round().revoked["worker1"]) == (1, 4)
    assert cluster.loads() == {"worker1": (1, 4), "worker2": (0, 0)}
    cluster.round()
    assert cluster.loads() == {"worker1": (1, 4), "worker2": (1, 4)}
    last = cluster.round()
    assert not any([*last.assigned.values(), *last.revoked.values(), last.delay_ms])


def test_task_assignment_when_worker_leaves_permanently() -> None:
    cluster = Cluster("worker1", "worker2")
    cluster.round()
    del cluster.running["worker2"]
    assert cluster.round().delay_ms == DELAY_MS
    cluster.now_ms += DELAY_MS // 2
    assert cluster.round().delay_ms == DELAY_MS // 2
    cluster.now_ms += DELAY_MS // 2 + 1
    assert cluster.round().delay_ms == 0
    assert cluster.loads() == {"worker1": (2, 8)}


def test_task_assignment_when_worker_bounces() -> None:
    cluster = Cluster("worker1", "worker2")
    cluster.round()
    before = cluster.running.pop("worker2")
    cluster.round()
    cluster.now_ms += DELAY_MS // 2
    cluster.running["worker2"] = []
    assert cluster.round().delay_ms == DELAY_MS // 2
    assert cluster.running["worker2"] == []
    cluster.now_ms += DELAY_MS // 2
    cluster.round()
    assert sorted(cluster.running["worker2"]) == sorted(before)


def test_task_assignment_when_leader_leaves_permanently() -> None:
    cluster = Cluster("worker1", "worker2", "worker3")
    cluster.round()
    del cluster.running["worker1"]
    cluster.leader = IncrementalAssignor(DELAY_MS)
    assert cluster.round().delay_ms == 0
    assert sorted(cluster.loads().values()) == [(1, 4), (1, 4)]


def test_task_assignment_when_first_assignment_attempt_fails() -> None:
    cluster = Cluster("worker1", "worker2")
    cluster.round(obeyed=False)
    # The generation was not completed: the leader forgets it.
    cluster.leader._previous_generation = -1
    cluster.round()
    assert cluster.loads() == {"worker1": (1, 4), "worker2": (1, 4)}


def test_assignments_that_were_not_received_are_given_at_once() -> None:
    cluster = Cluster("worker1", "worker2")
    cluster.round()
    cluster.running["worker2"] = []
    assert cluster.round().delay_ms == 0
    assert cluster.loads() == {"worker1": (1, 4), "worker2": (1, 4)}


def test_task_assignment_when_connectors_are_deleted() -> None:
    cluster = Cluster("worker1", "worker2")
    cluster.round()
    cluster.units = [unit for unit in cluster.units if unit[0] != "connector1"]
    revoked = cluster.round().revoked
    assert {unit[0] for units in revoked.values() for unit in units} >= {"connector1"}
    cluster.round()
    cluster.round()
    assert sum(tasks for _, tasks in cluster.loads().values()) == 4


def test_duplicated_assignment_is_revoked_from_both() -> None:
    cluster = Cluster("worker1", "worker2")
    cluster.round()
    twice = cluster.running["worker1"][1]
    cluster.running["worker2"].append(twice)
    revoked = cluster.round().revoked
    assert twice in revoked["worker1"]
    assert twice in revoked["worker2"]


def test_revoking_rounds_in_a_row_wait_longer() -> None:
    cluster = Cluster("worker1")
    cluster.round()
    delays = []
    for number in (2, 3, 4):
        cluster.running[f"worker{number}"] = []
        delays.append(cluster.round().delay_ms)
    assert delays == [0, 40, 0] or delays[:2] == [0, 40]


def test_without_a_delay_every_round_may_revoke() -> None:
    cluster = Cluster("worker1", delay_ms=0)
    cluster.round()
    for number in (2, 3, 4):
        cluster.running[f"worker{number}"] = []
        assert cluster.round().delay_ms == 0
    cluster.round()
    cluster.round()
    assert max(tasks for _, tasks in cluster.loads().values()) == 2


def test_2_3_never_revokes_twice_in_a_row() -> None:
    cluster = Cluster("worker1", backs_off=False)
    cluster.round()
    cluster.running["worker2"] = []
    assert any(cluster.round().revoked.values())
    cluster.running["worker3"] = []
    assert not any(cluster.round().revoked.values())


def test_eager_deals_tasks_where_connectors_ended() -> None:
    dealt = assign_eager(units_of(1, 4), ["b", "a"])
    assert dealt["a"] == [("connector1", CONNECTOR), ("connector1", 1), ("connector1", 3)]
    assert dealt["b"] == [("connector1", 0), ("connector1", 2)]
