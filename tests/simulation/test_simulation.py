"""A slice of the simulation for every test run: calm and stormy seeds, and some planted bugs.

`python -m tests.simulation --seconds N` (`make sim`) runs more seeds and every planted bug.
"""

import pytest

from tests.simulation.planted import search
from tests.simulation.plants import CANARY, PLANTS
from tests.simulation.profile import profile_of, storm_of
from tests.simulation.world import World

# Virtual time of a run with a planted bug, and the seeds that may be tried for it.
HUNT_MS = 30_000
HUNT_SEEDS = range(40)
# `make sim` hunts all of them; a test run takes every eighth, for some need ten seconds.
SLICE = PLANTS[::8]


@pytest.mark.parametrize("seed", range(8))
def test_every_check_holds_from_calm_to_stormy(seed: int) -> None:
    outcome = World(profile_of(seed)).run()
    assert outcome.rebalances


@pytest.mark.parametrize("seed", range(100, 112))
def test_every_check_holds_in_a_storm(seed: int) -> None:
    assert World(storm_of(seed)).run().events


def test_a_seed_is_a_run() -> None:
    """The same seed gives the same run, byte for byte; another one does not (I11)."""
    first, again, other = (World(storm_of(seed)).run() for seed in (3, 3, 4))
    assert first.digest == again.digest != other.digest


def test_canary() -> None:
    """A bug that no run can miss is found by the first."""
    found = search(CANARY, HUNT_SEEDS, HUNT_MS)
    assert found is not None
    assert found.seeds == 1


@pytest.mark.parametrize("plant", SLICE, ids=lambda plant: plant.name)
def test_a_planted_bug_is_found(plant) -> None:
    assert search(plant, HUNT_SEEDS, HUNT_MS) is not None
