"""Seeds of the simulation of consumer groups, and bugs that it finds."""

from collections import Counter

import pytest

from tests.planting import Plant
from tests.simulation.consumer_groups.plants import PLANTS
from tests.simulation.consumer_groups.search import search
from tests.simulation.consumer_groups.world import World

# A run takes about a second. Together these have everything that is required.
SEEDS = (1, 2, 3, 4, 5, 6)
# Runs that a planted bug may take.
SEARCHED = range(1, 25)
# Seeds to begin with, for planted bugs that few runs meet.
RARE = {
    "a static successor has no target": 28,
    "a member that is away may be asked for its partitions for ever": 44,
}
REQUIRED = (
    "ConsumerGroupHeartbeat GROUP_ID_NOT_FOUND",
    "ConsumerGroupHeartbeat UNKNOWN_MEMBER_ID",
    "ConsumerGroupHeartbeat UNRELEASED_INSTANCE_ID",
    "Heartbeat REBALANCE_IN_PROGRESS",
    "SyncGroup REBALANCE_IN_PROGRESS",
    "crash_broker",
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


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.name)
def test_planted_bug_is_found(plant: Plant) -> None:
    first = RARE.get(plant.name, SEARCHED.start)
    assert search(plant, range(first, first + len(SEARCHED))) is not None
