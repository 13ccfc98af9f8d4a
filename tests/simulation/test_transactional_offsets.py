"""Transactions of simulated producers violate no rule, and planted bugs are found."""

from collections import Counter

import pytest

from tests.planting import Plant, planted
from tests.simulation.checks.violation import Violation
from tests.simulation.transactional_offsets import TransactionWorld
from tests.transcripts.transaction_plants import TRANSACTION_PLANTS

SEEDS = range(12)
STEPS = 120

# What only requests of members, or with other fields than the simulated ones, can show.
_FOUND_BY_TRANSCRIPTS = {
    "a generation of an unknown group is accepted",
    "a blank identity is refused",
    "an old generation is accepted",
    "metadata is not limited in a transaction",
}
PLANTS = [plant for plant, _ in TRANSACTION_PLANTS if plant.name not in _FOUND_BY_TRANSCRIPTS]


def run_all() -> Counter[str]:
    """Run all seeds; return what has occurred."""
    coverage: Counter[str] = Counter()
    for seed in SEEDS:
        world = TransactionWorld(seed)
        world.run(STEPS)
        coverage += world.coverage
    return coverage


def test_no_rule_is_violated() -> None:
    coverage = run_all()
    for name in ("NONE", "INVALID_PRODUCER_EPOCH", "crash", "lost appends", "unstable"):
        assert coverage[name] >= 10, name


@pytest.mark.parametrize("plant", PLANTS, ids=[plant.name.replace(" ", "-") for plant in PLANTS])
def test_planted_bug_is_found(plant: Plant) -> None:
    with planted(plant), pytest.raises((Violation, AssertionError)):
        run_all()
