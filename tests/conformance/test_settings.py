"""Our broker with unusual settings: no check may say that it deviates.

Kafka runs with the same settings in `make conformance BROKERS=kafka`.
"""

import pytest

from coterie.conformance.checks.registry import all_checks
from coterie.conformance.results import Status
from tests.conformance.brokers import outcomes_of
from tests.conformance.settings import OTHER_SETTINGS, UNUSUAL_SETTINGS
from tests.conformance.test_our_broker import last_version_of_each

pytestmark = pytest.mark.asyncio

_BAD = (Status.DEVIATES, Status.FAILS)
# What the settings are about; the other areas use nothing of them.
_AREAS = {each.area for each in all_checks() if each.transcript.path.suffix == ".txt"} | {
    "groups", "coordinators", "configs", "metadata", "topics", "transactional_offsets",
    "consumer_heartbeats", "consumer_apis",
}  # fmt: skip


@pytest.mark.parametrize("name", UNUSUAL_SETTINGS)
async def test_no_false_alarm(name: str) -> None:
    checks = [each for each in last_version_of_each() if each.area in _AREAS]
    outcomes, leftovers = await outcomes_of(checks, UNUSUAL_SETTINGS[name])
    assert not [(each.check.name, each.reason) for each in outcomes if each.status in _BAD]
    assert not leftovers
    # A check that does not hold is skipped, and only such a one.
    assert sum(each.status is Status.PASS for each in outcomes) > 230


@pytest.mark.parametrize("name", OTHER_SETTINGS)
async def test_no_check_takes_a_default_for_granted(name: str) -> None:
    settings = OTHER_SETTINGS[name]
    outcomes, leftovers = await outcomes_of(last_version_of_each(), settings)
    assert not [(each.check.name, each.reason) for each in outcomes if each.status in _BAD]
    assert sum(each.status is Status.PASS for each in outcomes) > 400
    assert all("TOPIC_DELETION_DISABLED" in each for each in leftovers)
