"""Seeds of the simulation of transactions, and bugs that it finds."""

import pytest

from tests.planting import Plant, planted
from tests.simulation.transactions.plants import PLANTS
from tests.simulation.transactions.world import World

SEARCHED = range(1, 6)


@pytest.mark.parametrize("seed", [1, 2])
def test_transactions_hold_over_kills(seed: int) -> None:
    world = World(seed)
    world.run()
    assert world.kills
    outcomes = {each.outcome for producer in world.producers for each in producer.transactions}
    assert outcomes == {True, False, None}


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.name)
def test_planted_bug_is_found(plant: Plant) -> None:
    with planted(plant), pytest.raises(AssertionError):
        _search()


def _search() -> None:
    for seed in SEARCHED:
        World(seed).run()
