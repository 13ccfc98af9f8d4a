"""The suite itself: a right consumer passes every check, and each flaw is found by a check."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

import coterie.client_check.checks  # noqa: F401 - registers the scenarios
from coterie.client_check.model import FAILING, SCENARIOS, Judgement
from coterie.client_check.program import PLACES
from coterie.client_check.run import Run
from coterie.client_check.suite import Suite
from coterie.conformance.results import Result, exit_code
from coterie.testing.virtual_time import VirtualClock
from tests.client_check.stage import InMemory

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


def run_suite(wanted: Callable[[str], bool], *flaws: str) -> list[Result]:
    """Return the results of the consumer for tests, in virtual time."""

    async def run() -> list[Result]:
        clock = VirtualClock(asyncio.get_running_loop(), seed=1)
        clock.install()
        try:
            suite = Suite(
                InMemory(clock, frozenset(flaws)),
                SCENARIOS,
                set(PLACES),
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
