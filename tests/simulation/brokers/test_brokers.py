"""Some seeds of the simulation of brokers, and bugs that it finds."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.planting import Plant, planted
from tests.simulation.brokers.plants import PLANTS
from tests.simulation.brokers.world import World, run_world
from tests.simulation.planted import search

ROOT = Path(__file__).parent.parent.parent.parent
# A run takes two seconds of a processor. In these two, the one syncs and the other one cuts logs.
SEEDS = (1, 4)
# The plants that are searched for in each test run, by the first words of their names.
SOME_PLANTS = ("a claim keeps", "two coordinators own", "stale shards", "records are acknowledged")
SEARCHED = range(1, 4)


@pytest.mark.parametrize("seed", SEEDS)
def test_everything_holds(seed: int) -> None:
    world = World(seed)
    world.run()
    assert world.coverage["move"]
    assert world.ledger.records
    assert all(world.followers[index].values for index in range(3))


def test_trace_does_not_depend_on_string_hashes() -> None:
    traces = set()
    for hash_seed in ("1", "2"):
        command = [sys.executable, "-m", "tests.simulation.brokers", "1"]
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        result = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True
        )
        traces.add(result.stdout)
    assert len(traces) == 1
    assert "trace" in traces.pop()


def test_seeds_differ_in_what_the_disk_does() -> None:
    assert [World(seed).flushes for seed in SEEDS] == [True, False]
    assert World(SEEDS[1]).cuts


@pytest.mark.parametrize(
    "plant",
    [each for each in PLANTS if each.name.startswith(SOME_PLANTS)],
    ids=lambda plant: plant.name,
)
def test_planted_bug_is_found(plant: Plant) -> None:
    assert search(plant, SEARCHED, run_world) is not None


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.name)
def test_plant_applies(plant: Plant) -> None:
    """`make sim` searches for all of them."""
    with planted(plant):
        pass
