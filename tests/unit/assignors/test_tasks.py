"""The assignor of streams groups: 240 cases of Kafka's own class, and what holds in every case.

tests/golden/assignors/README.md says how the cases were made.
"""

import gzip
import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from math import ceil
from pathlib import Path

import pytest

from coterie.assignors.tasks import (
    TaskAssignment,
    TaskMember,
    TaskSubtopology,
    share_tasks,
)

GOLDEN = Path(__file__).parents[2] / "golden" / "assignors" / "task_cases.jsonl.gz"


def assign_tasks(
    members: Sequence[TaskMember],
    subtopologies: Mapping[str, TaskSubtopology],
    *,
    standby_replicas: int,
) -> dict[str, TaskAssignment]:
    """Return the tasks of each member id."""
    found: dict[str, TaskAssignment] = {}
    for _ in share_tasks(members, subtopologies, found, standby_replicas=standby_replicas):
        pass
    return found


def test_kafkas_class_assigns_the_same() -> None:
    count = 0
    with gzip.open(GOLDEN, "rt", encoding="utf-8") as file:
        for line in file:
            case = json.loads(line)
            found = assign_tasks(
                [TaskMember(*member) for member in case["members"]],
                {name: TaskSubtopology(*each) for name, each in case["subtopologies"].items()},
                standby_replicas=case["replicas"],
            )
            assert {member: [each.active, each.standby] for member, each in found.items()} == case[
                "sticky"
            ], line
            count += 1
    assert count == 240


def _tasks(role: dict[str, list[int]]) -> list[tuple[str, int]]:
    return [(name, index) for name, indexes in role.items() for index in indexes]


@pytest.mark.parametrize("seed", range(40))
def test_tasks_are_balanced_and_no_process_has_one_twice(seed: int) -> None:
    chance = random.Random(seed)
    subtopologies = {
        str(number): TaskSubtopology(chance.randint(1, 20), chance.random() < 0.6)
        for number in range(chance.randint(1, 4))
    }
    replicas = chance.randint(0, 2)
    total = sum(each.tasks for each in subtopologies.values())
    nothing = TaskAssignment({}, {}, {})
    before: dict[str, TaskAssignment] = {}
    process_of: dict[str, str] = {}
    for _ in range(4):
        for name in [*process_of]:
            if chance.random() < 0.3:
                del process_of[name]
        for _ in range(chance.randint(1, 6)):
            process_of[f"m{chance.randrange(10**6)}"] = f"p{chance.randrange(5)}"
        members = [
            TaskMember(
                name, process, before.get(name, nothing).active, before.get(name, nothing).standby
            )
            for name, process in process_of.items()
        ]
        before = assign_tasks(members, subtopologies, standby_replicas=replicas)
        assert set(before) == set(process_of)
        active = [task for each in before.values() for task in _tasks(each.active)]
        assert len(active) == len(set(active)) == total
        processes = set(process_of.values())
        held = Counter(
            (process_of[name], task)
            for name, each in before.items()
            for task in _tasks(each.active) + _tasks(each.standby)
        )
        assert set(held.values()) == {1}
        copies = Counter(task for _, task in held)
        for name, each in subtopologies.items():
            wanted = 1 + min(replicas, len(processes) - 1) if each.stateful else 1
            assert {copies[name, index] for index in range(each.tasks)} == {wanted}


def test_a_member_keeps_its_tasks_when_another_joins() -> None:
    subtopologies = {"0": TaskSubtopology(9, stateful=True)}
    first = assign_tasks(
        [TaskMember("a", "p1", {}, {}), TaskMember("b", "p2", {}, {})],
        subtopologies,
        standby_replicas=0,
    )
    members = [
        TaskMember("a", "p1", first["a"].active, {}),
        TaskMember("b", "p2", first["b"].active, {}),
        TaskMember("c", "p3", {}, {}),
    ]
    second = assign_tasks(members, subtopologies, standby_replicas=0)
    assert {name: len(_tasks(each.active)) for name, each in second.items()} == dict.fromkeys(
        "abc", 3
    )
    for name in "ab":
        assert set(second[name].active["0"]) < set(first[name].active["0"])


def test_a_large_group_is_assigned_in_steps() -> None:
    members = [TaskMember(f"m{number}", f"p{number % 20}", {}, {}) for number in range(100)]
    found: dict[str, TaskAssignment] = {}
    steps = list(
        share_tasks(
            members, {"0": TaskSubtopology(5_000, stateful=True)}, found, standby_replicas=1
        )
    )
    assert max(steps) <= 1 + 2 * ceil(5_000 / 100)
    assert sum(len(each.active["0"]) for each in found.values()) == 5_000
