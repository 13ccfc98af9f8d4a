"""A sample of crashes while transactions run, and the planted bugs about their files."""

import pytest

from tests.crash.transaction_crashes import DEATH, TransactionCrashes, all_kinds
from tests.crash.transaction_plants import PLANTS, find
from tests.planting import Plant

# One prefix, and one of its crashes, in so many is tried.
_STEPS = {DEATH: 7, "power": 41}
_SAMPLES = {DEATH: 3, "power": 23}


@pytest.mark.parametrize(("kind", "story", "flush"), all_kinds())
def test_transactions_hold_over_crashes(kind: str, story: str, flush: bool) -> None:
    crashes = TransactionCrashes(story, flush=flush)
    for operations in range(0, len(crashes.story.operations) + 1, _STEPS[kind]):
        assert crashes.run(kind, operations, _SAMPLES[kind]) == []
    assert crashes.tried.total() > 20


@pytest.mark.parametrize("plant", PLANTS, ids=[plant.name.replace(" ", "-") for plant in PLANTS])
def test_a_planted_bug_about_transactions_is_found(plant: Plant) -> None:
    assert find(plant)
