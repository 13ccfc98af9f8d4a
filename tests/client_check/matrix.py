"""Prints the figures of docs/clients.md: `python -m tests.client_check.matrix A.json B.json ...`.

The arguments are results of `coterie check-client --json`. The first table has a row for each
client, the second one for each check that is no pass for some client.
"""

import json
import sys
from pathlib import Path
from typing import Any

_COUNTED = ("pass", "differs", "breaks", "skipped")
_NAMED = ("differs", "breaks")


def matrix(results: list[dict[str, Any]], names: list[str]) -> list[str]:
    """Return the lines of both tables."""
    lines = [f"| client | {' | '.join(_COUNTED)} | seconds |", "|---|" + "---:|" * 5]
    rows: dict[str, dict[str, str]] = {}
    for name, result in zip(names, results, strict=True):
        counts = " | ".join(str(result["counts"][status]) for status in _COUNTED)
        lines.append(f"| {name} | {counts} | {result['seconds']:.0f} |")
        for check in result["checks"]:
            rows.setdefault(check["name"], {})[name] = check["status"]
    lines += ["", f"| check | {' | '.join(_NAMED)} |", "|---|" + "---|" * len(_NAMED)]
    for check, found in rows.items():
        if set(found.values()) & {"breaks", "differs", "error"}:
            cells = (_clients(found, names, status) for status in _NAMED)
            lines.append(f"| {check} | {' | '.join(cells)} |")
    return lines


def _clients(found: dict[str, str], names: list[str], status: str) -> str:
    """Return the clients whose check has this status; an error is shown as such."""
    named = []
    for name in names:
        got = found.get(name, "skipped")
        if got == status:
            named.append(name)
        elif got == "error" and status == "breaks":
            named.append(f"{name} (error)")
    return ", ".join(named)


def main() -> None:
    """Print the tables of the named files; the names of the files are those of the clients."""
    paths = [Path(each) for each in sys.argv[1:]]
    results = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    print("\n".join(matrix(results, [path.stem for path in paths])))


if __name__ == "__main__":
    main()
