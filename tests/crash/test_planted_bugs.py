"""Every bug planted into the product is found, and nothing is found without one."""

import pytest

from coterie.storage.log import Log
from tests.crash.campaign import Runner, Task, length_of
from tests.crash.plants import CANARY, PLANTS, find
from tests.planting import Plant, planted


@pytest.mark.parametrize("plant", PLANTS, ids=[plant.name.replace(" ", "-") for plant in PLANTS])
def test_a_planted_bug_is_found(plant: Plant) -> None:
    assert find(plant)


def test_the_canary_is_found_and_nothing_without_it() -> None:
    kind, scenario, mode = CANARY.kinds[0].split(":")
    flush = mode == "commit"
    before = Log.sync.__code__
    assert find(CANARY) == kind
    assert Log.sync.__code__ is before
    end = length_of(kind, scenario, flush=flush)
    assert Runner(Task(kind, scenario, flush, 0, end)).run().failures == []


def test_a_plant_whose_text_is_missing_is_an_error() -> None:
    missing = CANARY._replace(old="nothing")
    with pytest.raises(AssertionError, match="is not in"), planted(missing):
        raise NotImplementedError
