"""A sample of crashes of whole brokers while stories run, and the planted bugs about them."""

import pytest

from tests.crash.group_crashes import GroupCrashes
from tests.crash.group_plants import PLANTS as GROUP_PLANTS
from tests.crash.security_crashes import SecurityCrashes
from tests.crash.security_plants import PLANTS as SECURITY_PLANTS
from tests.crash.share_crashes import ShareCrashes
from tests.crash.share_plants import PLANTS as SHARE_PLANTS
from tests.crash.story_crashes import DEATH, POWER, StoryCrashes, all_kinds, find
from tests.crash.transaction_crashes import TransactionCrashes
from tests.crash.transaction_plants import PLANTS as TRANSACTION_PLANTS
from tests.planting import Plant

# One prefix, and one of its crashes, in so many is tried. Stories of security have fewer, and those
# of share groups fewer operations.
_STEPS = {DEATH: 7, POWER: 41}
_SAMPLES = {DEATH: 3, POWER: 23}
_SHORT_STEP, _SHORT_SAMPLE = 3, 2
_SHARE_STEPS, _SHARE_SAMPLES = {DEATH: 5, POWER: 11}, {DEATH: 1, POWER: 9}
_STORIES = (
    (TransactionCrashes, TRANSACTION_PLANTS),
    (GroupCrashes, GROUP_PLANTS),
    (SecurityCrashes, SECURITY_PLANTS),
    (ShareCrashes, SHARE_PLANTS),
)
_ALL = [(of, *kind) for of, _ in _STORIES for kind in all_kinds(of)]
_PLANTS = [
    pytest.param(of, plant, id=plant.name.replace(" ", "-"))
    for of, plants in _STORIES
    for plant in plants
]


@pytest.mark.parametrize(("of", "kind", "story", "flush"), _ALL)
def test_a_story_holds_over_crashes(
    of: type[StoryCrashes], kind: str, story: str, flush: bool
) -> None:
    crashes = of(story, flush=flush)
    step, sample = _STEPS[kind], _SAMPLES[kind]
    if of is SecurityCrashes:
        step, sample = _SHORT_STEP, _SHORT_SAMPLE
    elif of is ShareCrashes:
        step, sample = _SHARE_STEPS[kind], _SHARE_SAMPLES[kind]
    for operations in range(0, crashes.end + 1, step):
        assert crashes.run(kind, operations, sample) == []
    assert crashes.tried.total() > 5


@pytest.mark.parametrize(("of", "plant"), _PLANTS)
def test_a_planted_bug_is_found(of: type[StoryCrashes], plant: Plant) -> None:
    assert find(of, plant)
