"""Prints the matrix of docs/clients.md: `python -m tests.client_check.matrix A.json B.json ...`.

The arguments are results of `coterie check-client --json`. A row is a check that is no pass for
some client; a column is a client.
"""

import json
import sys
from pathlib import Path
from typing import Any

_CELLS = {
    "pass": "",
    "breaks": "**breaks**",
    "differs": "differs",
    "skipped": "-",
    "error": "**error**",
}


def matrix(results: list[dict[str, Any]], names: list[str]) -> list[str]:
    """Return the lines of the table."""
    rows: dict[str, dict[str, str]] = {}
    for name, result in zip(names, results, strict=True):
        for check in result["checks"]:
            rows.setdefault(check["name"], {})[name] = check["status"]
    lines = [f"| check | {' | '.join(names)} |", "|---|" + "---|" * len(names)]
    for status in ("pass", "differs", "breaks", "skipped"):
        counts = [str(result["counts"][status]) for result in results]
        lines.append(f"| *{status}* | {' | '.join(counts)} |")
    seconds = [f"{result['seconds']:.0f}" for result in results]
    lines.append(f"| *seconds* | {' | '.join(seconds)} |")
    for check, found in rows.items():
        if set(found.values()) & {"breaks", "differs", "error"}:
            cells = [_CELLS[found.get(name, "skipped")] for name in names]
            lines.append(f"| {check} | {' | '.join(cells)} |")
    return lines


def main() -> None:
    """Print the table of the named files; the names of the files are those of the columns."""
    paths = [Path(each) for each in sys.argv[1:]]
    results = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    print("\n".join(matrix(results, [path.stem for path in paths])))


if __name__ == "__main__":
    main()
