"""No verb costs the square of what it is about; the steps are counted, so load changes nothing."""

import zlib
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.soak.turns.growth import LIMIT, Growth, growths, least
from tests.soak.turns.session import Sizes

SMALL = Sizes().scaled(0.005)
# It waits for many seconds, and is about time.
NOT_COUNTED = "transactions that time out at once"
# How often a verb is counted at most.
COUNTS = 3
# The verbs are divided, because `tests.sampling` leaves parts of them to the extended form. Verbs
# that need earlier ones are together in the last part.
PARTS = 4


def letters(verb: str) -> str:
    """Return the name of a verb without numbers, which differ between servers of two sizes."""
    return "".join(each for each in verb if not each.isdigit())


def part_of(verb: str) -> int:
    """Return in which part a verb is counted."""
    if verb.endswith((", wide", ", deep")):
        return zlib.crc32(verb.encode()) % (PARTS - 1)
    return PARTS - 1


def findings(counted: Iterable[Growth]) -> dict[str, Growth]:
    """Return the verbs that are findings, by their names without numbers."""
    return {letters(growth.verb): growth for growth in counted if growth.is_finding}


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("part", range(PARTS))
def test_cost_of_every_verb_grows_as_its_request_does(tmp_path: Path, part: int) -> None:
    def is_counted(name: str) -> bool:
        return name != NOT_COUNTED and part_of(name) == part

    found = findings(growths(tmp_path / "0", SMALL, is_counted))

    def is_found(name: str) -> bool:
        return letters(name) in found

    # Work of the server itself may come into a verb, so what was found is counted again.
    for count in range(1, COUNTS):
        if found:
            again = growths(tmp_path / str(count), SMALL, is_found)
            found = findings(
                least([found[letters(each.verb)], each])
                for each in again
                if letters(each.verb) in found
            )
    assert found == {}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_verb_that_costs_the_square_is_found(tmp_path: Path) -> None:
    counted = growths(
        tmp_path / "planted",
        SMALL,
        lambda name: name == "FindCoordinator, wide",
        server="tests.soak.turns.planted_square",
    )
    assert "FindCoordinator, wide" in findings(counted)


def test_what_comes_into_one_count_is_no_finding() -> None:
    counts = [Growth("verb", (10_000, 40_000)), Growth("verb", (15_000, 60_000))]
    assert least(counts) == ("verb", (15_000, 40_000))
    assert all(each.is_finding for each in counts)
    assert not least(counts).is_finding


def test_ratio_needs_steps_and_a_limit() -> None:
    assert Growth("verb", (10_000, int(10_000 * LIMIT) + 1)).is_finding
    assert not Growth("verb", (10_000, 20_000)).is_finding
    assert not Growth("verb", (10, 1_000)).is_finding, "too few steps to tell"
