"""Some brokers with a planted bug, found by the checks. `make conformance-mutants` plants all."""

import pytest

from tests.conformance.cluster_plants import CLUSTER_PLANTS
from tests.conformance.mutants import INVISIBLE, find, first_check, visible_plants
from tests.conformance.security_plants import SECURITY_PLANTS
from tests.conformance.share_plants import SHARE_PLANTS
from tests.conformance.transaction_plants import TRANSACTION_PLANTS
from tests.planting import Plant, planted
from tests.simulation.plants import PLANTS
from tests.transcripts.test_planted_bugs import MORE_PLANTS

# One of each kind: a rule of groups, a timer, offsets, and the handlers of records and topics.
SLICE = (
    "fencing is skipped",
    "the generation is not incremented",
    "the initial delay is skipped",
    "a session lasts half of its timeout",
    "metadata of offsets is not limited",
    "duplicates are stored again",
    "the epoch of a fetch session is not compared",
    "a request that only validates creates topics",
)
BY_NAME = {plant.name: plant for plant in visible_plants()}
PLANTED = [*(BY_NAME[name] for name in SLICE), *TRANSACTION_PLANTS, *SECURITY_PLANTS]
PLANTED += [*SHARE_PLANTS, *CLUSTER_PLANTS]


@pytest.mark.parametrize("plant", PLANTED, ids=[plant.name.replace(" ", "-") for plant in PLANTED])
def test_check_of_the_rule_finds_the_planted_bug(plant: Plant) -> None:
    found = find(plant).check
    assert found is not None
    assert found.startswith(first_check(plant))


@pytest.mark.parametrize("plant", visible_plants(), ids=lambda plant: plant.name.replace(" ", "-"))
def test_bug_fits_the_present_code(plant: Plant) -> None:
    with planted(plant):
        pass


def test_bug_that_uses_an_unknown_name_is_refused() -> None:
    plant = BY_NAME["a member without an assignment gets a partition"]
    wrong = plant._replace(new=f"{plant.new.strip()} + no_such_name")
    with pytest.raises(AssertionError, match="no_such_name"), planted(wrong):
        pass


def test_bugs_that_no_client_can_see_exist() -> None:
    assert INVISIBLE.keys() <= {
        plant.name for plant in (*PLANTS, *(each for each, _ in MORE_PLANTS))
    }
