"""Seeds of the simulation of consumer groups, and bugs that it finds."""

from collections import Counter

import pytest

from coterie.coordinator.groups.consumer import target
from coterie.coordinator.groups.consumer.step import Step
from coterie.coordinator.groups.consumer.timers import TimerKind
from tests.planting import Plant
from tests.simulation.consumer_groups.plants import PLANTS
from tests.simulation.consumer_groups.world import World, run_world
from tests.simulation.planted import search

# A run takes about a second. Together these have everything that is required.
SEEDS = (2, 11, 20)
# The runs that a planted bug may take. The first find most of them.
SEARCHED = (1, 8, 10, 20, 2, 3, 4, 5, 6, 7, 9, *range(11, 20), *range(21, 31))
# The first seeds for planted bugs that take long to be found in that order.
SOONEST = {
    "the revocation timer is not armed after a load": 6,
    "a loaded member has no session": 2,
    "a downgraded group does not rebalance": 20,
    "a resolved regular expression raises no epoch": 10,
    "the topics of a loaded group are not compared": 15,
    "new topics are not matched with regular expressions": 10,
    "unchanged heartbeats do not prolong the session": 10,
}
# The time between two parts of a target. A target has some ten parts.
PART_MS = 100
REQUIRED = (
    "ConsumerGroupHeartbeat GROUP_ID_NOT_FOUND",
    "ConsumerGroupHeartbeat UNKNOWN_MEMBER_ID",
    "ConsumerGroupHeartbeat UNRELEASED_INSTANCE_ID",
    "Heartbeat REBALANCE_IN_PROGRESS",
    "SyncGroup REBALANCE_IN_PROGRESS",
    "crash_broker",
    "downgrade",
    "failed append",
    "lost answer",
    "rests as classic",
    "rests as consumer",
)


def test_everything_holds_and_occurs() -> None:
    coverage: Counter[str] = Counter()
    for seed in SEEDS:
        world = World(seed)
        world.run()
        coverage += world.coverage
    assert [name for name in REQUIRED if not coverage[name]] == []


def test_everything_holds_if_each_target_is_computed_in_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """[consumer-groups/large-target]: every group is large, and the event loop is busy."""

    def arm_late(step: Step, kind: str, member_id: str, deadline_ms: int) -> None:
        late_ms = PART_MS if kind == TimerKind.TARGET else 0
        arm(step, kind, member_id, deadline_ms + late_ms)

    arm = Step.arm
    monkeypatch.setattr(Step, "arm", arm_late)
    monkeypatch.setattr(target, "_COMPUTED_AT_ONCE", 0)
    monkeypatch.setattr(target, "_COMPUTED_TOGETHER", 3)
    for seed in SEEDS:
        World(seed).run()


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.name)
def test_planted_bug_is_found(plant: Plant) -> None:
    seeds = dict.fromkeys((SOONEST.get(plant.name, SEARCHED[0]), *SEARCHED))
    assert search(plant, seeds, run_world) is not None


def test_seeds_that_find_a_bug_soonest_are_those_of_planted_bugs() -> None:
    assert SOONEST.keys() <= {plant.name for plant in PLANTS}
