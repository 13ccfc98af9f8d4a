"""The simulation finds every planted bug soon, and nothing without one."""

import pytest

from coterie.coordinator.groups.classic.heartbeat import heartbeat
from tests.planting import Plant, planted
from tests.simulation.campaign import run
from tests.simulation.planted import FIRST_SEEDS, search, search_order
from tests.simulation.plants import CANARY, PLANTS

# Runs that a planted bug may take. The first run finds most of them; it takes about 0.15 s.
MAX_RUNS = 80


@pytest.mark.parametrize("plant", PLANTS, ids=[plant.name.replace(" ", "-") for plant in PLANTS])
def test_planted_bug_is_found(plant: Plant) -> None:
    assert search(plant, search_order(MAX_RUNS)) is not None


def test_planted_bugs_have_different_names() -> None:
    assert len({plant.name for plant in PLANTS}) == len(PLANTS) >= 20


@pytest.mark.parametrize("seed", FIRST_SEEDS)
def test_nothing_is_found_without_a_planted_bug(seed: int) -> None:
    assert run("storm", seed).failure is None


def test_canary_is_found() -> None:
    """The canary breaks every group, so checks that miss it check nothing."""
    before = heartbeat.__code__
    with planted(CANARY):
        assert heartbeat.__code__ is not before
        assert run("storm", FIRST_SEEDS[0]).failure is not None
    assert heartbeat.__code__ is before


def test_planting_fails_if_the_text_does_not_occur() -> None:
    plant = next(each for each in PLANTS if each.old)
    with pytest.raises(AssertionError, match="is not in"), planted(plant._replace(old="nothing")):
        raise NotImplementedError
