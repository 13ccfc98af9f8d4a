"""What clients do that `coterie check-client` does not pass, beside the rule of each check.

A line of `client_findings.tsv` has the protocol, the client, whether it breaks the rule or differs
(nothing if no check is about it), the names of the checks, and what was seen.
"""

from collections.abc import Iterator
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from coterie.client_check import checks as _checks  # noqa: F401 - registers the scenarios
from coterie.client_check.model import SCENARIOS
from coterie.client_check.suite import STARTS
from documentation.reference.tables import code, lines_of, prose, table

_FILE = Path(__file__).parent / "client_findings.tsv"
# What a program sees: a row for each cause, a column for each library.
_ERRORS = Path(__file__).parent / "client_errors.tsv"
_HEAD = """# What clients do

What does not pass `coterie check-client`, and what else was seen, from
[runs with nine clients](../clients.md#nine-clients). The rule is that of the check.

"""
_PROTOCOLS = {"classic": "Classic protocol", "consumer": "Consumer protocol (KIP-848)"}


class ClientFinding(NamedTuple):
    """What a client does."""

    protocol: str
    client: str
    status: str
    checks: tuple[str, ...]
    seen: str


def client_findings() -> Iterator[ClientFinding]:
    """Yield what was seen, by protocol and client."""
    for protocol, client, status, checks, seen in lines_of(_FILE, 5):
        yield ClientFinding(protocol, client, status, tuple(checks.split()), seen)


def client_findings_page() -> str:
    """Return the page.

    Raises:
        KeyError: there is no such check.
    """
    checks = [STARTS, *(check for each in SCENARIOS for check in each.checks)]
    rules = {check.name: check.sentence for check in checks}
    parts = [_HEAD]
    for protocol, findings in groupby(client_findings(), attrgetter("protocol")):
        parts.append(f"## {_PROTOCOLS[protocol]}\n\n")
        rows = [
            (
                each.client,
                each.status,
                "<br>".join(f"{code(name)}: {prose(rules[name])}" for name in each.checks),
                each.seen,
            )
            for each in findings
        ]
        parts.append(table(("client", "", "checks and rules", "what was seen"), rows))
    head, *errors = lines_of(_ERRORS, 0)
    return "".join([*parts, "## Errors of secured brokers\n\n", table(head, errors)])
