"""The documents name as many checks, transcripts and protocols as there are."""

import re
from pathlib import Path

import pytest

from coterie.client_check import checks as _checks  # noqa: F401 - registers the scenarios
from coterie.client_check.membership import CLASSIC, CONSUMER
from coterie.client_check.model import SCENARIOS
from coterie.client_check.suite import STARTS, played
from coterie.conformance.checks.registry import all_checks
from coterie.conformance.transcript import all_paths
from coterie.lab.machines import MACHINES
from tests.transcripts.test_transcripts import ROOT

DOCS = ROOT.parents[1] / "docs"
_WORDS = {11: "eleven", 17: "seventeen"}


def of_clients(protocol: str, *, secured: bool = False) -> int:
    """Return how many checks `coterie check-client` has."""
    scenarios = [each for each in played(SCENARIOS, protocol, secured=secured) if not each.is_long]
    return len([*(check for each in scenarios for check in each.checks), STARTS])


def of_brokers() -> list[str]:
    """Return what docs/conformance.md says of the checks."""
    found = all_checks()
    behaviours = {each.situation for each in found}
    transcripts = [each for each in found if each.transcript.path.suffix == ".txt"]
    secured = [each for each in found if each.users or each.mechanisms]
    return [
        f"{len(found):,} checks of {len(behaviours):,} behaviours",
        f"{len(transcripts)} of them are [transcripts]",
        f"{len(secured)} checks, are about logins and rights",
    ]


def of_client_checks() -> list[str]:
    """Return what docs/clients.md says of the checks."""
    return [
        f"There are {of_clients(CLASSIC)} checks",
        f"KIP-848: {of_clients(CONSUMER)} checks",
        f"makes {_WORDS[of_clients(CLASSIC, secured=True) - of_clients(CLASSIC)]} more checks",
    ]


def of_the_overview() -> list[str]:
    """Return what README.md says of checks and protocols."""
    return [
        f"{of_clients(CLASSIC)} checks of the classic protocol and {of_clients(CONSUMER)} of",
        f"under {_WORDS[len(MACHINES)]} protocols",
    ]


@pytest.mark.parametrize(
    ("page", "texts"),
    [
        ("conformance.md", of_brokers()),
        ("clients.md", of_client_checks()),
        ("transcripts.md", [f"{len(all_paths())} are in"]),
        ("../README.md", of_the_overview()),
    ],
)
def test_a_page_has_the_number_that_there_is(page: str, texts: list[str]) -> None:
    text = re.sub(r"\s+", " ", Path(DOCS / page).read_text(encoding="utf-8"))
    assert [each for each in texts if each not in text] == []
