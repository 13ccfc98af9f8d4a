"""The commands `coterie groups` on a running broker."""

from typing import Any

from coterie.testing import Broker
from tests.unit.cli.command import rows_of, run


def groups(broker: Broker, *words: str) -> Any:
    """Return the result of a command of `coterie groups`."""
    return run(None, "groups", *words, "--bootstrap-server", broker.bootstrap_servers)


def rows(broker: Broker, *words: str) -> Any:
    """Return what a command prints as JSON that succeeds."""
    result = groups(broker, *words, "--json")
    assert result.exit_code == 0, result.output
    return rows_of(result)


def refused(broker: Broker, *words: str) -> str:
    """Return what a command prints that fails."""
    result = groups(broker, *words)
    assert result.exit_code == 1, result.output
    return " ".join(result.stderr.split())
