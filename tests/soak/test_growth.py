"""No verb costs the square of what it is about; the steps are counted, so load changes nothing."""

from pathlib import Path
from zlib import crc32

import pytest

from tests.soak.turns.growth import LIMIT, Growth, growths
from tests.soak.turns.session import Sizes

SMALL = Sizes().scaled(0.005)
# It waits for many seconds, and is about time.
NOT_COUNTED = "transactions that time out at once"
# The verbs are counted in so many parts.
PARTS = 2


def is_counted(name: str, part: int) -> bool:
    # The names of some verbs have numbers, which are not the same on both servers.
    letters = "".join(each for each in name if not each.isdigit())
    return name != NOT_COUNTED and crc32(letters.encode()) % PARTS == part


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("part", range(PARTS))
def test_cost_of_every_verb_grows_as_its_request_does(tmp_path: Path, part: int) -> None:
    found = [
        growth
        for growth in growths(tmp_path / "all", SMALL, lambda name: is_counted(name, part))
        if growth.is_finding
    ]
    # Work of the server itself may come into a verb once, so these are counted again.
    names = {growth.verb for growth in found}
    again = growths(tmp_path / "again", SMALL, names.__contains__) if names else iter(())
    assert [growth for growth in again if growth.is_finding and growth.verb in names] == []


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_verb_that_costs_the_square_is_found(tmp_path: Path) -> None:
    counted = growths(
        tmp_path / "planted",
        SMALL,
        lambda name: name == "FindCoordinator, wide",
        server="tests.soak.turns.planted_square",
    )
    assert [growth.verb for growth in counted if growth.is_finding] == ["FindCoordinator, wide"]


def test_ratio_needs_steps_and_a_limit() -> None:
    assert Growth("verb", (10_000, int(10_000 * LIMIT) + 1)).is_finding
    assert not Growth("verb", (10_000, 20_000)).is_finding
    assert not Growth("verb", (10, 1_000)).is_finding, "too few steps to tell"
