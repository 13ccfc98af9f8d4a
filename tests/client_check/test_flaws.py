"""The suite itself: a right consumer passes every check, and each flaw is found by a check."""

import asyncio
from collections.abc import Callable

import pytest

import coterie.client_check.checks  # noqa: F401 - registers the scenarios
from coterie.client_check.model import SCENARIOS
from coterie.client_check.program import PLACES
from coterie.client_check.suite import Suite
from coterie.conformance.results import Result, Status
from coterie.testing.virtual_time import VirtualClock
from tests.client_check.stage import InMemory

# A flaw of the consumer, a check that must find it, and what it must find.
FLAWS = [
    ("forgets-given-id", "joining/uses-given-id", Status.FAILS),
    ("hammers", "joining/accepts-full-group", Status.FAILS),
    ("ignores-rebalance", "rejoining/on-rebalance", Status.FAILS),
    ("keeps-unknown-id", "rejoining/forgets-unknown-id", Status.DEVIATES),
    ("keeps-coordinator", "coordinator/looks-up-when-moved", Status.FAILS),
    ("commits-when-fenced", "fenced/does-not-commit", Status.FAILS),
    ("rejoins-when-fenced", "fenced/stops", Status.DEVIATES),
    ("leaves-as-static", "static/does-not-leave", Status.FAILS),
    ("does-not-leave", "closing/leaves", Status.DEVIATES),
    ("silent-while-processing", "heartbeats/while-processing", Status.FAILS),
    ("slow-heartbeats", "heartbeats/in-time", Status.DEVIATES),
    ("forgets-a-partition", "assigning/each-partition-once", Status.FAILS),
    ("assigns-twice", "assigning/roundrobin", Status.FAILS),
    ("assigns-all-to-itself", "assigning/balanced", Status.FAILS),
    ("leaves-foreign-topics", "assigning/foreign-topics", Status.FAILS),
    ("hands-over-at-once", "assigning/cooperative-withholds", Status.FAILS),
    ("keeps-quiet-after-revoking", "cooperative/rejoins-after-revoking", Status.FAILS),
    ("gives-up-uncommitted", "committing/before-giving-up", Status.DEVIATES),
    ("commits-beyond", "committing/next-offset", Status.FAILS),
    ("reads-revoked", "following/stops-reading-revoked", Status.FAILS),
    ("ignores-committed", "positions/starts-at-committed", Status.FAILS),
    ("ignores-truncation", "positions/checks-new-epoch", Status.DEVIATES),
    ("ignores-throttle", "fetching/waits-when-throttled", Status.DEVIATES),
    ("ignores-announced-versions", "connecting/works-with-an-old-broker", Status.FAILS),
    ("gives-up-on-refused-version", "connecting/accepts-refused-version", Status.FAILS),
    ("refuses-unknown-tags", "frames/unknown-tagged-fields", Status.FAILS),
    ("expects-whole-frames", "frames/in-parts", Status.FAILS),
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
    assert [each for each in results if each.status is not Status.PASS] == []
    assert len(results) > 120


@pytest.mark.parametrize(("flaw", "check", "status"), FLAWS, ids=[each[0] for each in FLAWS])
def test_flaw_is_found(flaw: str, check: str, status: Status) -> None:
    (result,) = run_suite(lambda name: name == check, flaw)
    assert result.status is status, result.reason
    assert result.reason
    assert result.conversation
