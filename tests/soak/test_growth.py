"""No verb costs the square of what it is about; the steps are counted, so load changes nothing."""

from pathlib import Path

import pytest

from tests.soak.turns.growth import LIMIT, Growth, growths
from tests.soak.turns.session import Sizes

SMALL = Sizes().scaled(0.005)
# It waits for many seconds, and is about time.
NOT_COUNTED = "transactions that time out at once"


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_cost_of_every_verb_grows_as_its_request_does(tmp_path: Path) -> None:
    found = [
        growth
        for growth in growths(tmp_path / "all", SMALL, lambda name: name != NOT_COUNTED)
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
