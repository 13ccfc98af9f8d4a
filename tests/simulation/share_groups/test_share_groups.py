"""A seed of the simulation of share groups, and bugs that it finds."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.planting import Plant, planted
from tests.simulation.planted import search
from tests.simulation.share_groups.plants import PLANTS
from tests.simulation.share_groups.world import ShareWorld

ROOT = Path(__file__).parent.parent.parent.parent
SEED = 1
# The plants that are searched for in each test run, by the first words of their names: the cheap.
SOME_PLANTS = ("a record that is held", "a record whose acknowledgement")


def run_once(seed: int) -> None:
    """Run the shortest world of a seed."""
    ShareWorld(seed).run(rounds=1)


@pytest.mark.slow
def test_everything_holds_and_the_trace_does_not_depend_on_string_hashes() -> None:
    command = [sys.executable, "-m", "tests.simulation.share_groups", str(SEED), "--rounds", "1"]
    environment = {**os.environ, "PYTHONHASHSEED": "1"}
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
    ) as other:
        try:
            world = ShareWorld(SEED)
            world.run(rounds=1)
            trace, _ = other.communicate()
        finally:
            other.kill()
    assert (other.returncode, trace) == (0, f"trace {world.digest}\n")
    assert world.coverage["move"]
    assert world.coverage["delivered again"]


@pytest.mark.parametrize(
    "plant",
    [each for each in PLANTS if each.name.startswith(SOME_PLANTS)],
    ids=lambda plant: plant.name,
)
def test_planted_bug_is_found(plant: Plant) -> None:
    assert search(plant, [SEED], run_once) is not None


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.name)
def test_plant_applies(plant: Plant) -> None:
    """`make sim` searches for all of them."""
    with planted(plant):
        pass
