"""Two results of `coterie check --json`, side by side."""

import json
from pathlib import Path
from typing import Any


class ComparisonError(Exception):
    """A file is not a result of `coterie check --json`."""


def read_results(path: Path) -> dict[str, Any]:
    """Read one file.

    Raises:
        ComparisonError: it is something else.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ComparisonError(f"{path} is not JSON: {error}") from error
    if not isinstance(data, dict) or not {"broker", "checks"} <= data.keys():
        raise ComparisonError(f"{path} was not written by `coterie check --json`")
    return data


def differing_rows(first: dict[str, Any], second: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Return name and both results of each check whose status differs."""
    sides = [{each["name"]: _text(each) for each in data["checks"]} for data in (first, second)]
    statuses = [
        {each["name"]: each["status"] for each in data["checks"]} for data in (first, second)
    ]
    missing = "not run"
    return [
        (name, sides[0].get(name, missing), sides[1].get(name, missing))
        for name in dict.fromkeys([*sides[0], *sides[1]])
        if statuses[0].get(name) != statuses[1].get(name)
    ]


def _text(row: dict[str, Any]) -> str:
    return f"{row['status']}: {row['reason']}" if row["reason"] else str(row["status"])
