"""The test of the tests: every bug that is planted into the core is found, and soon.

That they are found by the right check and not by chance is seen in test_simulation.py: without a
plant the same seeds pass.
"""

import pytest

from coterie.coordinator.heartbeat import heartbeat
from tests.planting import Plant, planted
from tests.simulation.campaign import run
from tests.simulation.planted import FIRST_SEEDS, search, search_order
from tests.simulation.plants import CANARY, PLANTS

# Runs a plant may take; most are found by the first, a run takes about 0.15 s.
MOST_RUNS = 80


@pytest.mark.parametrize("plant", PLANTS, ids=[plant.name.replace(" ", "-") for plant in PLANTS])
def test_a_planted_bug_is_found(plant: Plant) -> None:
    assert search(plant, search_order(MOST_RUNS)) is not None


def test_names_say_which_is_which() -> None:
    assert len({plant.name for plant in PLANTS}) == len(PLANTS) >= 20


@pytest.mark.parametrize("seed", FIRST_SEEDS)
def test_without_a_plant_nothing_is_found(seed: int) -> None:
    assert run("storm", seed).failure is None


def test_the_canary_dies() -> None:
    """A harness in which this passes looks at nothing."""
    before = heartbeat.__code__
    with planted(CANARY):
        assert heartbeat.__code__ is not before
        assert run("storm", FIRST_SEEDS[0]).failure is not None
    assert heartbeat.__code__ is before


def test_a_plant_whose_text_is_gone_is_an_error() -> None:
    with pytest.raises(AssertionError, match="is not in"), planted(CANARY._replace(old="nothing")):
        raise NotImplementedError
