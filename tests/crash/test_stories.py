"""A sample of crashes while transactions run and groups live, and the planted bugs about them."""

import pytest

from tests.crash.group_crashes import GroupCrashes
from tests.crash.group_plants import PLANTS as GROUP_PLANTS
from tests.crash.group_plants import table
from tests.crash.pair_table import DOCUMENT
from tests.crash.story_crashes import DEATH, POWER, StoryCrashes, all_kinds, find
from tests.crash.transaction_crashes import TransactionCrashes
from tests.crash.transaction_plants import PLANTS as TRANSACTION_PLANTS
from tests.planting import Plant

# One prefix, and one of its crashes, in so many is tried.
_STEPS = {DEATH: 7, POWER: 41}
_SAMPLES = {DEATH: 3, POWER: 23}
_ALL = [(of, *kind) for of in (TransactionCrashes, GroupCrashes) for kind in all_kinds(of)]
_PLANTS = [
    pytest.param(of, plant, id=plant.name.replace(" ", "-"))
    for of, plants in ((TransactionCrashes, TRANSACTION_PLANTS), (GroupCrashes, GROUP_PLANTS))
    for plant in plants
]


@pytest.mark.parametrize(("of", "kind", "story", "flush"), _ALL)
def test_a_story_holds_over_crashes(
    of: type[StoryCrashes], kind: str, story: str, flush: bool
) -> None:
    crashes = of(story, flush=flush)
    for operations in range(0, crashes.end + 1, _STEPS[kind]):
        assert crashes.run(kind, operations, _SAMPLES[kind]) == []
    assert crashes.tried.total() > 5


@pytest.mark.parametrize(("of", "plant"), _PLANTS)
def test_a_planted_bug_is_found(of: type[StoryCrashes], plant: Plant) -> None:
    assert find(of, plant)


def test_the_document_has_the_planted_bugs_about_groups() -> None:
    assert table() in DOCUMENT.read_text()
