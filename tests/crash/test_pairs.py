"""Every pair of operations is done, and some are crashed here and there; `make crash` does more."""

import pytest

from tests.crash.campaign import CRASHES, pair_searches, pair_task, run
from tests.crash.pair_plants import PAIR_PLANTS
from tests.crash.pair_table import claims, documented, reached, search
from tests.crash.pairs import AFTER, BOUNDS, pairs

# One crash in so many: one to three of each pair.
_SAMPLE = {"death": 149, "power": 19_997}
# Of one pair in so many: its disks take longer to make than to try.
_PAIRS = {"death": 5, "power": 11}


def test_the_table_says_which_pairs_are_reached() -> None:
    without_plants = {
        key: "".join(each for each in cell if each.islower()) for key, cell in documented().items()
    }
    assert without_plants == reached()


def test_every_pair_finds_a_planted_bug() -> None:
    assert [key for key, cell in documented().items() if cell.islower()] == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", CRASHES)
def test_a_few_crashes_of_pairs(kind: str) -> None:
    failures = []
    for number, pair in enumerate(pairs("min-lag")):
        if pair.when == AFTER and not number % _PAIRS[kind]:
            failures += run(pair_task(kind, pair.name), _SAMPLE[kind]).failures
    assert failures == []


@pytest.mark.parametrize("bounds", BOUNDS)
def test_cleanings_that_a_setting_makes_due(bounds: str) -> None:
    """`compact` asserts that the cleaning is due, and that segments were replaced."""
    for task in pair_searches(f"clean+append+{AFTER}+{bounds}"):
        if not task.lost:
            assert run(task).failures == []


@pytest.mark.parametrize("letter", [each.letter for each in PAIR_PLANTS])
def test_a_planted_bug_is_found_by_a_pair(letter: str) -> None:
    pair = next(pair for each, pair in claims() if each == letter)
    assert search(letter, pair)
