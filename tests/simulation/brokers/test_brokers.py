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
# Seeds in which acknowledged means synced, and in which logs lose their ends.
SYNCS, CUTS = 1, 4
# The plants that are searched for in each test run, by the first words of their names.
SOME_PLANTS = ("a claim keeps", "two coordinators own", "stale shards", "records are acknowledged")
SEARCHED = range(1, 4)


def check(world: World) -> None:
    """Run a world, in which something has to happen."""
    world.run(rounds=1)
    assert world.coverage["move"]
    assert world.ledger.records
    assert all(each.values for each in world.followers)


def test_everything_holds_while_logs_are_cut() -> None:
    check(World(CUTS))


def test_everything_holds_and_the_trace_does_not_depend_on_string_hashes() -> None:
    command = [sys.executable, "-m", "tests.simulation.brokers", str(SYNCS), "--rounds", "1"]
    environment = {**os.environ, "PYTHONHASHSEED": "1"}
    # Both run at the same time: one after the other they took 120 s on a machine at load 25.
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
    ) as other:
        try:
            world = World(SYNCS)
            check(world)
            trace, _ = other.communicate()
        finally:
            other.kill()
    assert (other.returncode, trace) == (0, f"trace {world.digest}\n")


def test_seeds_differ_in_what_the_disk_does() -> None:
    assert (World(SYNCS).flushes, World(SYNCS).cuts) == (True, False)
    assert (World(CUTS).flushes, World(CUTS).cuts) == (False, True)


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
