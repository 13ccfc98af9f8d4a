"""Our own broker passes the checks, and nothing is left behind. `make conformance` runs all."""

from collections.abc import Iterable

import pytest

from coterie.conformance.checks.check import Check
from coterie.conformance.checks.registry import all_checks
from coterie.conformance.results import Status
from coterie.testing import AnswerError
from tests.conformance.brokers import outcomes_at_a_cluster, outcomes_of

pytestmark = pytest.mark.asyncio

LEVEL = "config transaction.version="
EXPIRATION = "transactional.id.expiration.ms"
EXPIRATION_INTERVAL = "transaction.remove.expired.transaction.cleanup.interval.ms"
GROUP_SETTINGS = (
    "group.consumer.max.size=1",
    "group.share.max.size=1",
    "group.streams.max.size=1",
    "group.consumer.migration.policy=disabled",
    "group.consumer.migration.policy=downgrade",
    "group.consumer.migration.policy=upgrade",
)
_BAD = (Status.DEVIATES, Status.FAILS)


def first_and_last_version_of_each() -> list[Check]:
    """Return the checks without those of the versions between the first and the last one."""
    return [each for found in _situations() for each in (found[0], *found[1:][-1:])]


def last_version_of_each() -> list[Check]:
    """Return the checks of the last version of each situation."""
    return [found[-1] for found in _situations()]


def _situations() -> Iterable[list[Check]]:
    """Return the checks of each situation, which differ in the version."""
    situations: dict[str, list[Check]] = {}
    for check in all_checks():
        situations.setdefault(check.situation, []).append(check)
    return situations.values()


@pytest.mark.timeout(300)
async def test_every_check_passes_with_default_settings() -> None:
    outcomes, leftovers = await outcomes_of(first_and_last_version_of_each())
    assert not [(each.check.name, each.reason) for each in outcomes if each.status in _BAD]
    assert not leftovers
    skipped = {each.reason.partition(",")[0] for each in outcomes if each.status is Status.SKIPPED}
    assert {reason for reason in skipped if not reason.startswith("holds until Kafka ")} == {
        *(f"needs {setting}" for setting in GROUP_SETTINGS),
        "needs a login: --command-config with a super user",
        "needs group.initial.rebalance.delay.ms=0",
        "needs a cluster of 3 brokers",
        "needs group.max.size=2",
        "needs transaction.version=0",
        "needs transaction.version=1",
        "needs transactional.id.expiration.ms=2000",
        "takes 7200 s",
        "takes 691860 s",
    }


async def test_every_check_of_clusters_passes_on_three_brokers() -> None:
    checks = [each for each in all_checks() if each.brokers > 1]
    outcomes, leftovers = await outcomes_at_a_cluster(checks)
    assert not [(each.check.name, each.reason) for each in outcomes if each.status in _BAD]
    assert not leftovers
    skipped = {each.reason.partition(",")[0] for each in outcomes if each.status is Status.SKIPPED}
    assert skipped == {"holds until Kafka 3.9"}


async def test_which_refusal_comes_first_does_not_depend_on_who_is_in_charge() -> None:
    areas = ("consumer_heartbeats/description_of_other_groups/", "delete_records/internal_topic/")
    checks = [
        each
        for each in all_checks()
        if each.name.startswith((*areas, "produce/internal_topic/")) or "empty" in each.situation
    ]
    outcomes, _ = await outcomes_at_a_cluster(checks)
    assert not [(each.check.name, each.reason) for each in outcomes if each.status in _BAD]
    assert sum(each.status is Status.PASS for each in outcomes) > 5


async def test_every_check_of_logins_and_rights_passes_on_a_secured_broker() -> None:
    checks = [each for each in all_checks() if each.mechanisms]
    outcomes, leftovers = await outcomes_of(checks, secured=True)
    old = {each.check.name for each in outcomes if each.reason.startswith("holds until Kafka ")}
    assert old == {each.name for each in checks if "_of_old_releases" in each.name}
    others = [each for each in outcomes if each.check.name not in old]
    assert not [(each.check.name, each.reason) for each in others if each.reason]
    assert {each.status for each in others} == {Status.PASS}
    assert not leftovers


async def test_checks_of_rights_are_skipped_without_an_authorizer() -> None:
    checks = [each for each in all_checks() if each.mechanisms][:3]
    outcomes, _ = await outcomes_of(checks, secured=True, authorized=False)
    assert {(each.status, each.reason) for each in outcomes} == {
        (Status.SKIPPED, "needs authorizer.class.name, the broker has none")
    }


@pytest.mark.parametrize("setting", ["group.max.size=2", *GROUP_SETTINGS])
async def test_checks_of_a_setting_pass_on_a_broker_that_has_it(setting: str) -> None:
    checks = [each for each in all_checks() if f"config {setting}" in str(each.transcript)]
    name, _, value = setting.partition("=")
    outcomes, _ = await outcomes_of(checks, {name: value})
    assert {each.status for each in outcomes} == {Status.PASS}


@pytest.mark.parametrize("level", [0, 1])
async def test_checks_of_transactions_pass_at_each_level(level: int) -> None:
    checks = [each for each in first_and_last_version_of_each() if LEVEL in str(each.transcript)]
    outcomes, _ = await outcomes_of(checks, transaction_level=level)
    assert not [(each.check.name, each.reason) for each in outcomes if each.status in _BAD]
    assert sum(each.status is Status.PASS for each in outcomes) > 5


async def test_checks_of_expiring_ids_pass_on_a_broker_where_ids_expire_soon() -> None:
    checks = [each for each in all_checks() if EXPIRATION in str(each.transcript)]
    settings = {EXPIRATION: "2000", EXPIRATION_INTERVAL: "500"}
    outcomes, _ = await outcomes_of(checks, settings)
    assert {each.status for each in outcomes} == {Status.PASS}


@pytest.mark.parametrize(
    ("error", "status"),
    [("NOT_COORDINATOR", Status.PASS), ("INVALID_TXN_STATE", Status.DEVIATES)],
)
async def test_request_is_repeated_only_while_the_coordinator_is_not_ready(
    error: str, status: Status
) -> None:
    checks = [each for each in all_checks() if each.name == "init_producer_id/next_producer/v4"]
    outcomes, _ = await outcomes_of(
        checks, begin=lambda broker: broker.fault(AnswerError(error), api="InitProducerId", times=1)
    )
    assert [each.status for each in outcomes] == [status]


async def test_response_that_is_not_yet_as_expected_names_no_values() -> None:
    """A new Kafka answers the first requests for producer ids with an error and the id -1."""
    checks = [each for each in all_checks() if each.name == "idempotence/producer_id/v0"]
    loading = AnswerError("COORDINATOR_LOAD_IN_PROGRESS")
    outcomes, _ = await outcomes_of(
        checks, begin=lambda broker: broker.fault(loading, api="InitProducerId", times=1)
    )
    assert [(each.status, each.reason) for each in outcomes] == [(Status.PASS, "")]
