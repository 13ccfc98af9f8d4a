"""The conformance of our broker, and of others that run, as pages and as a table of figures.

    python -m tests.conformance [NAME=HOST:PORT...]     (make conformance BROKERS="kafka-4.3.1=...")

Our own broker is started here. For each broker the directory build/conformance gets its results as
JSON, JUnit's XML and a page, and a page beside ours. The exit status is 1 if a check deviates.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from coterie.conformance.checks.page import page
from coterie.testing import Broker
from tests.conformance.brokers import DEFAULTS

_DIRECTORY = Path("build/conformance")
_OURS = "coterie"


def coterie(*arguments: str) -> tuple[int, str]:
    """Run the command line; return its exit code and its output."""
    command = [sys.executable, "-m", "coterie", *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    return done.returncode, done.stdout


def check(name: str, address: str) -> dict[str, Any]:
    """Check one broker and write its files; return its results."""
    path = _DIRECTORY / name
    code, text = coterie("check", address, "--json", "--junit", f"{path}.xml")
    if not text:
        raise SystemExit(code)
    results: dict[str, Any] = {"title": name, **json.loads(text)}
    path.with_name(f"{name}.json").write_text(json.dumps(results, indent=2), encoding="utf-8")
    path.with_name(f"{name}.html").write_text(page([results]), encoding="utf-8")
    return results


def row(name: str, results: dict[str, Any]) -> str:
    """Return one line of the table of figures."""
    counts = results["counts"]
    cells = [len(results["checks"]), *counts.values(), results["seconds"]]
    return f"| {name} | {results['kafka_version']} | " + " | ".join(map(str, cells)) + " |"


def reasons(results: dict[str, Any]) -> dict[str, int]:
    """Return how many checks were skipped for each kind of reason."""
    found: dict[str, int] = {}
    for each in results["checks"]:
        if each["status"] == "skipped":
            words = each["reason"].partition(",")[0].split(" version ")[0]
            found[words] = found.get(words, 0) + 1
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def main(arguments: list[str]) -> int:
    """Check our broker and those of the arguments; return 1 if one deviates."""
    _DIRECTORY.mkdir(parents=True, exist_ok=True)
    brokers = dict(each.split("=", 1) for each in arguments)
    with Broker(config=DEFAULTS) as ours:
        everything = {
            name: check(name, address)
            for name, address in ({_OURS: f"{ours.host}:{ours.port}"} | brokers).items()
        }
    for name in brokers:
        both = page([everything[_OURS], everything[name]])
        (_DIRECTORY / f"{_OURS}-{name}.html").write_text(both, encoding="utf-8")
    print("| broker | as Kafka | checks | pass | deviates | fails | skipped | seconds |")
    print("|---|---|---|---|---|---|---|---|")
    for name, results in everything.items():
        print(row(name, results))
    for name, results in everything.items():
        print(f"\n{name}: skipped because")
        for reason, count in reasons(results).items():
            print(f"  {count:4}  {reason}")
    print(f"\npages in {_DIRECTORY}")
    bad = sum(each["counts"]["deviates"] + each["counts"]["fails"] for each in everything.values())
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
