"""The search for planted bugs: run after run until an invariant is violated."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from tests.planting import Plant, planted
from tests.simulation.profile import storm_of
from tests.simulation.world import World

# A search begins with these seeds, which together find most bugs soonest.
FIRST_SEEDS = (33, 29, 55, 11, 54, 13, 39, 1)
DURATION_MS = 25_000


class Detection(NamedTuple):
    """How a planted bug was found.

    Attributes:
        seed: of the run that found it.
        runs: how many runs it took.
        invariant: the violated invariant, or the type of another exception.
    """

    seed: int
    runs: int
    invariant: str


def search_order(limit: int) -> list[int]:
    """Return the first `limit` seeds of storms, the most productive ones first."""
    others = [seed for seed in range(limit) if seed not in FIRST_SEEDS]
    return [*FIRST_SEEDS, *others][:limit]


def run_storm(seed: int) -> None:
    """Run the storm of a seed."""
    World(storm_of(seed, DURATION_MS)).run()


def search(
    plant: Plant, seeds: Iterable[int], run: Callable[[int], None] = run_storm
) -> Detection | None:
    """Run seeds with a planted bug until one finds it; return None if none does."""
    with planted(plant):
        for count, seed in enumerate(seeds, 1):
            try:
                run(seed)
            except Exception as error:
                invariant = getattr(error, "invariant", type(error).__name__)
                return Detection(seed, count, invariant)
    return None
