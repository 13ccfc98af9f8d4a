"""Checks of a machine as a table, and the error if something needed is missing."""

from collections.abc import Sequence

from coterie.cli.errors import CommandFailed
from coterie.cli.output import Column, Row
from coterie.installation import Check

_STYLES = {"ok": "green", "missing": "red", "low": "yellow"}
CHECK_COLUMNS = [
    Column("STATE", "state", 7, style=lambda value: _STYLES.get(value, "")),
    Column("WHAT", "what", 16),
    Column("FOUND", "found", 40),
    Column("DO", "remedy", 1),
]


def check_row(check: Check) -> Row:
    """Return the row of a check, with the keys that documentation/reference/json_keys.tsv lists."""
    return {
        "what": check.what,
        "state": check.state,
        "found": check.found,
        "remedy": check.remedy or None,
    }


def fail_if_any(lacking: Sequence[Check]) -> None:
    """Fail with the names of what is missing, and with each remedy once.

    Raises:
        CommandFailed: something is.
    """
    if lacking:
        remedies = dict.fromkeys(each.remedy for each in lacking)
        raise CommandFailed(
            f"Missing: {', '.join(each.what for each in lacking)}.", "\n".join(remedies)
        )
