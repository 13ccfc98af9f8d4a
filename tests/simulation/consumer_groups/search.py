"""The search for a planted bug: run after run until something does not hold."""

from collections.abc import Iterable
from typing import NamedTuple

from tests.planting import Plant, planted
from tests.simulation.consumer_groups.world import World


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


def search(plant: Plant, seeds: Iterable[int]) -> Detection | None:
    """Run seeds with a planted bug until one finds it; return None if none does."""
    with planted(plant):
        for count, seed in enumerate(seeds, 1):
            try:
                World(seed).run()
            except Exception as error:
                return Detection(seed, count, getattr(error, "invariant", type(error).__name__))
    return None
