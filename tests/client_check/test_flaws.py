"""The suite itself: a right consumer passes every check, and each flaw is found by a check."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

import coterie.client_check.checks  # noqa: F401 - registers the scenarios
from coterie.client.mechanisms import MECHANISMS
from coterie.client_check.membership import CLASSIC, CONSUMER
from coterie.client_check.model import FAILING, SCENARIOS, Judgement
from coterie.client_check.program import PLACES, CommandNotUsable
from coterie.client_check.run import Run
from coterie.client_check.security import ClientSecurity
from coterie.client_check.suite import Suite
from coterie.conformance.results import Result, exit_code
from coterie.testing.virtual_time import VirtualClock
from tests.client_check.stage import InMemory
from tests.client_check.wire import with_its_password

# A flaw of the consumer, a check that must find it, and what it must find.
FLAWS = [
    ("forgets-given-id", "joining/uses-given-id", Judgement.BREAKS),
    ("hammers", "joining/accepts-full-group", Judgement.BREAKS),
    ("ignores-rebalance", "rejoining/on-rebalance", Judgement.BREAKS),
    ("keeps-unknown-id", "rejoining/forgets-unknown-id", Judgement.DIFFERS),
    ("keeps-coordinator", "coordinator/looks-up-when-moved", Judgement.BREAKS),
    ("commits-when-fenced", "fenced/does-not-commit", Judgement.BREAKS),
    ("rejoins-when-fenced", "fenced/stops", Judgement.DIFFERS),
    ("leaves-as-static", "static/does-not-leave", Judgement.BREAKS),
    ("does-not-leave", "closing/leaves", Judgement.DIFFERS),
    ("silent-while-processing", "heartbeats/while-processing", Judgement.BREAKS),
    ("slow-heartbeats", "heartbeats/in-time", Judgement.DIFFERS),
    ("forgets-a-partition", "assigning/each-partition-once", Judgement.BREAKS),
    ("assigns-twice", "assigning/roundrobin", Judgement.BREAKS),
    ("assigns-all-to-itself", "assigning/balanced", Judgement.BREAKS),
    ("leaves-foreign-topics", "assigning/foreign-topics", Judgement.BREAKS),
    ("hands-over-at-once", "assigning/cooperative-withholds", Judgement.BREAKS),
    ("keeps-quiet-after-revoking", "cooperative/rejoins-after-revoking", Judgement.BREAKS),
    ("gives-up-uncommitted", "committing/before-giving-up", Judgement.DIFFERS),
    ("commits-beyond", "committing/next-offset", Judgement.BREAKS),
    ("reads-revoked", "following/stops-reading-revoked", Judgement.BREAKS),
    ("ignores-committed", "positions/starts-at-committed", Judgement.BREAKS),
    ("ignores-truncation", "positions/checks-new-epoch", Judgement.DIFFERS),
    ("ignores-throttle", "fetching/waits-when-throttled", Judgement.DIFFERS),
    ("ignores-announced-versions", "connecting/works-with-an-old-broker", Judgement.BREAKS),
    ("gives-up-on-refused-version", "connecting/accepts-refused-version", Judgement.BREAKS),
    ("refuses-unknown-tags", "frames/unknown-tagged-fields", Judgement.BREAKS),
    ("expects-whole-frames", "frames/in-parts", Judgement.BREAKS),
]
# The same of the consumer protocol. What both protocols share is found above.
FLAWS_OF_CONSUMER_PROTOCOL = [
    ("lets-broker-name-it", "joining/makes-its-id", Judgement.DIFFERS),
    ("subscribes-to-more", "joining/sends-subscription", Judgement.BREAKS),
    ("new-id-each-join", "joining/keeps-id-after-lost-answer", Judgement.DIFFERS),
    ("ignores-announced-versions", "joining/without-the-protocol", Judgement.BREAKS),
    ("hammers", "joining/accepts-switched-off", Judgement.BREAKS),
    ("hammers", "joining/accepts-unsupported-assignor", Judgement.BREAKS),
    ("hammers", "joining/accepts-invalid-request", Judgement.BREAKS),
    ("hammers", "joining/accepts-full-group", Judgement.BREAKS),
    ("slow-heartbeats", "heartbeats/in-time", Judgement.DIFFERS),
    ("hasty-heartbeats", "heartbeats/not-too-often", Judgement.DIFFERS),
    ("forgets-epoch", "heartbeats/identity", Judgement.BREAKS),
    ("repeats-itself", "heartbeats/says-only-changes", Judgement.DIFFERS),
    ("silent-while-processing", "heartbeats/while-processing", Judgement.BREAKS),
    ("rejoins-when-loading", "heartbeats/goes-on-while-loading", Judgement.DIFFERS),
    ("says-little-after-error", "heartbeats/says-everything-after-error", Judgement.DIFFERS),
    ("stops-when-refused", "heartbeats/goes-on-without-right", Judgement.BREAKS),
    ("fixed-interval", "heartbeats/follows-interval", Judgement.DIFFERS),
    ("ignores-fence", "rejoining/after-fenced-epoch", Judgement.BREAKS),
    ("new-id-each-join", "rejoining/keeps-id-when-fenced", Judgement.DIFFERS),
    ("keeps-positions-when-fenced", "rejoining/asks-for-committed", Judgement.DIFFERS),
    ("ignores-fence", "rejoining/after-removal", Judgement.BREAKS),
    ("new-id-each-join", "rejoining/keeps-id-when-removed", Judgement.DIFFERS),
    ("ignores-fence", "rejoining/accepts-lost-group", Judgement.BREAKS),
    ("never-reports", "reconciling/reports-first-partitions", Judgement.DIFFERS),
    ("never-reports", "reconciling/reports-what-is-left", Judgement.BREAKS),
    ("keeps-old-epoch", "reconciling/takes-new-epoch", Judgement.BREAKS),
    ("reads-revoked", "reconciling/stops-reading-revoked", Judgement.BREAKS),
    ("stops-everything", "reconciling/keeps-the-rest", Judgement.DIFFERS),
    ("ignores-additions", "reconciling/takes-over", Judgement.BREAKS),
    ("ignores-committed", "reconciling/starts-at-committed", Judgement.BREAKS),
    ("says-little-after-error", "reconciling/learns-after-lost-answer", Judgement.BREAKS),
    ("says-little-after-error", "reconciling/repeats-lost-report", Judgement.DIFFERS),
    ("says-little-after-error", "reconciling/repeats-refused-report", Judgement.BREAKS),
    ("reads-everything", "reconciling/waits-for-partitions", Judgement.BREAKS),
    ("reads-everything", "reconciling/reads-assigned", Judgement.BREAKS),
    ("gives-up-uncommitted", "committing/before-giving-up", Judgement.DIFFERS),
    ("commits-in-epoch-before", "committing/identity", Judgement.BREAKS),
    ("commits-in-epoch-before", "committing/in-new-epoch", Judgement.DIFFERS),
    ("gives-up-stale", "committing/retries-on-stale-epoch", Judgement.DIFFERS),
    ("asks-as-nobody", "positions/states-epoch", Judgement.DIFFERS),
    ("gives-up-stale", "positions/retries-on-stale-epoch", Judgement.BREAKS),
    ("keeps-coordinator", "coordinator/looks-up-when-moved", Judgement.BREAKS),
    ("commits-when-fenced", "fenced/does-not-commit", Judgement.BREAKS),
    ("rejoins-when-fenced", "fenced/stops", Judgement.DIFFERS),
    ("hides-instance", "static/states-instance", Judgement.BREAKS),
    ("leaves-as-static", "static/leaves-for-a-while", Judgement.BREAKS),
    ("leaves-as-static", "static/comes-back", Judgement.BREAKS),
    ("hammers", "static/accepts-unreleased-instance", Judgement.BREAKS),
    ("does-not-leave", "closing/leaves", Judgement.DIFFERS),
    ("matches-itself", "patterns/sends-expression", Judgement.DIFFERS),
    ("reads-other-topics", "patterns/reads-matches", Judgement.BREAKS),
    ("repeats-expression", "patterns/says-it-once", Judgement.DIFFERS),
    ("ignores-additions", "patterns/follows-new-topic", Judgement.BREAKS),
    ("matches-itself", "patterns/follows-new-topic", Judgement.BREAKS),
    ("forgets-expression", "patterns/keeps-expression-when-fenced", Judgement.BREAKS),
    ("keeps-old-expression", "patterns/changes-expression", Judgement.BREAKS),
    ("hammers", "patterns/accepts-invalid-expression", Judgement.BREAKS),
]


FLAWS_OF_LOGINS: list[tuple[str, str, Judgement]] = [
    ("asks-before-login", "logins/before-requests", Judgement.BREAKS),
    ("shows-its-password", "logins/hides-the-password", Judgement.BREAKS),
    ("logs-in-once", "logins/again-in-time", Judgement.DIFFERS),
    ("joins-anew-when-cut", "logins/keeps-its-group", Judgement.DIFFERS),
    ("hammers-logins", "logins/pauses-after-refusals", Judgement.DIFFERS),
    ("says-nothing", "logins/reports-refusals", Judgement.DIFFERS),
    ("gives-up-when-refused", "logins/after-a-refusal", Judgement.BREAKS),
    ("begins-again-when-refused", "access/goes-on-with-a-topic", Judgement.DIFFERS),
    ("says-nothing", "access/reports-a-refused-topic", Judgement.DIFFERS),
    ("hammers", "access/pauses-at-a-refused-group", Judgement.DIFFERS),
    ("hammers", "access/reports-a-refused-group", Judgement.DIFFERS),
]


def run_suite(
    wanted: Callable[[str], bool], *flaws: str, protocol: str = CLASSIC, secured: bool = False
) -> list[Result]:
    """Return the results of the consumer for tests, in virtual time."""

    async def run() -> list[Result]:
        clock = VirtualClock(asyncio.get_running_loop(), seed=1)
        clock.install()
        security = ClientSecurity("SASL_PLAINTEXT", "SCRAM-SHA-256", "") if secured else None
        try:
            suite = Suite(
                InMemory(clock, frozenset(flaws), security),
                SCENARIOS,
                set(PLACES),
                protocol=protocol,
                security=None if security is None else security.values,
                parallel=4,
                report=lambda _scenario, _results: None,
                wanted=wanted,
            )
            return await suite.run()
        finally:
            clock.uninstall()

    return asyncio.run(run())


def test_right_consumer_passes_every_check() -> None:
    results = run_suite(lambda _: True)
    assert [each for each in results if each.status is not Judgement.PASS] == []
    assert len(results) > 120


@pytest.mark.parametrize(("flaw", "check", "status"), FLAWS, ids=[each[0] for each in FLAWS])
def test_flaw_is_found(flaw: str, check: str, status: Judgement) -> None:
    (result,) = run_suite(lambda name: name == check, flaw)
    assert result.status is status, result.reason
    assert result.reason
    assert result.conversation


def test_right_consumer_that_logs_in_passes_every_check_of_logins() -> None:
    areas = ("logins/", "access/", "joining/", "frames/")
    results = run_suite(lambda name: name.startswith(areas), secured=True)
    assert [each for each in results if each.status is not Judgement.PASS] == []
    assert len(results) > 20


@pytest.mark.parametrize(
    ("flaw", "check", "status"),
    FLAWS_OF_LOGINS,
    ids=[f"{each[0]}: {each[1]}" for each in FLAWS_OF_LOGINS],
)
def test_flaw_of_a_login_is_found(
    flaw: str, check: str, status: Judgement, monkeypatch: pytest.MonkeyPatch
) -> None:
    if flaw == "shows-its-password":
        monkeypatch.setitem(MECHANISMS, "SCRAM-SHA-256", with_its_password)
    (result,) = run_suite(lambda name: name == check, flaw, secured=True)
    assert result.status is status, result.reason
    assert result.reason


def test_every_check_of_logins_has_a_flaw() -> None:
    checks = [check.name for each in SCENARIOS if each.is_secured for check in each.checks]
    assert sorted(checks) == sorted(check for _, check, _ in FLAWS_OF_LOGINS)


def test_right_consumer_of_the_consumer_protocol_passes_every_check() -> None:
    results = run_suite(lambda _: True, protocol=CONSUMER)
    assert [each for each in results if each.status is not Judgement.PASS] == []
    assert len(results) > 100


@pytest.mark.parametrize(
    ("flaw", "check", "status"),
    FLAWS_OF_CONSUMER_PROTOCOL,
    ids=[f"{each[0]}: {each[1]}" for each in FLAWS_OF_CONSUMER_PROTOCOL],
)
def test_flaw_is_found_in_the_consumer_protocol(flaw: str, check: str, status: Judgement) -> None:
    (result,) = run_suite(lambda name: name == check, flaw, protocol=CONSUMER)
    assert result.status is status, result.reason
    assert result.reason
    assert result.conversation


@pytest.mark.parametrize(
    ("protocol", "api"), [(CLASSIC, "ConsumerGroupHeartbeat"), (CONSUMER, "JoinGroup")]
)
def test_program_of_the_other_protocol_cannot_be_checked(protocol: str, api: str) -> None:
    with pytest.raises(CommandNotUsable, match=f"joins with {api}: it does not speak .*{protocol}"):
        run_suite(lambda _: True, "speaks-the-other-protocol", protocol=protocol)


@pytest.mark.parametrize("mistake", [AssertionError("x"), IndexError("x"), TypeError("x")])
def test_mistake_of_a_check_is_an_error_with_its_cause(
    mistake: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play_wrongly(run: Run) -> None:
        await run.start()
        await run.stable()
        raise mistake

    at = next(n for n, each in enumerate(SCENARIOS) if each.checks[0].name == "fenced/stops")
    wrong = [*SCENARIOS[:at], SCENARIOS[at]._replace(play=play_wrongly), *SCENARIOS[at + 1 :]]
    monkeypatch.setattr("tests.client_check.test_flaws.SCENARIOS", wrong)
    results = {each.name: each for each in run_suite(lambda name: name.startswith("fenced/"))}
    result = results["fenced/stops"]
    assert result.status is Judgement.ERROR
    assert repr(mistake) in result.reason
    assert "in play_wrongly" in result.reason
    assert Path(__file__).name in result.reason
    assert result.conversation
    assert exit_code(results.values(), FAILING) == 2
