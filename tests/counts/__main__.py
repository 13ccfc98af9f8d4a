"""The figures as a table, or as JSON: `python -m tests.counts [--tree DIR] [--json]`."""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.counts import source

ROOT = Path(__file__).parent.parent.parent
WAYS = Path(__file__).with_name("ways.py")
_TIME_LIMIT_S = 120
ROUNDS = 5


def counts(tree: Path) -> dict[str, Any]:
    """Return every figure of a tree."""
    rooms = source.by_room(tree)
    inside = [row for name, row in rooms.items() if name.startswith("coterie")]
    return {
        "rooms": rooms,
        "product": {key: sum(row[key] for row in inside) for key in ("files", "lines", "small")},
        "words": source.words(tree),
        "duplicates": source.duplicates(tree),
        "assertions": source.assertions(tree),
        "private_accesses": source.private_accesses(tree),
        "ways": ways(tree, ROUNDS),
    }


def ways(tree: Path, rounds: int) -> dict[str, Any]:
    """Return what requests pass through in a broker of that tree, by a process of its own."""
    answer = subprocess.run(
        [sys.executable, str(WAYS), str(tree), str(rounds)],
        env={**os.environ, "PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
        timeout=_TIME_LIMIT_S,
        check=False,
    )
    if answer.returncode:
        raise SystemExit(f"the broker of {tree} was not counted:\n{answer.stderr}")
    found: dict[str, Any] = json.loads(answer.stdout)
    return found


def table(found: dict[str, Any]) -> Iterator[str]:
    """Return the lines of the tables, in Markdown."""
    small = f"files below {source.SMALL_FILE_LINES} lines"
    yield f"| package | files | lines | {small} |"
    yield "|---|---:|---:|---:|"
    rooms = {**found["rooms"], "all of coterie/": found["product"]}
    for name, row in rooms.items():
        yield f"| {name} | {row['files']} | {row['lines']:,} | {row['small']} |"
    yield ""
    yield "| figure | |"
    yield "|---|---:|"
    yield f"| words in documents | {found['words']:,} |"
    if found["duplicates"] is not None:
        lines = source.DUPLICATE_LINES
        yield f"| pairs of places that share {lines} lines or more | {found['duplicates']} |"
    for folder, ratio in found["assertions"].items():
        yield f"| assertions a function, {folder} | {ratio:.3f} |"
    yield f"| accesses of tests to private attributes | {found['private_accesses']} |"
    yield ""
    heads = ("files", "lines", "calls", "into another file", "of these back into an earlier one")
    yield f"| request | {' | '.join(heads)} |"
    yield "|---|---:|---:|---:|---:|---:|"
    for name, way in found["ways"].items():
        numbers = (way[key] for key in ("modules", "lines", "calls", "crossings", "back"))
        yield f"| {name} | " + " | ".join(f"{number:,}" for number in numbers) + " |"


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tree", type=Path, default=ROOT, help="a checkout of this repository")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    found = counts(options.tree.resolve())
    print(json.dumps(found) if options.json else "\n".join(table(found)))


if __name__ == "__main__":
    main()
