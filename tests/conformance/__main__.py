"""The conformance of our broker, and of others, as pages and as a table of figures.

    python -m tests.conformance [NAME=HOST:PORT | kafka | cluster | kfake | killed]...
    make conformance BROKERS="kafka cluster kfake killed"

Our own broker is started here, and so are a Kafka 4.3.1 with each of seven sets of settings
(`kafka`), three brokers of it (`cluster`), franz-go's stand-in (`kfake`), and a broker of ours that
is killed in the middle (`killed`). For each broker the directory build/conformance gets its results
as JSON, JUnit's XML and a page, and a page beside ours. The exit status is 1 if a check of ours or
of Kafka deviates.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from coterie.conformance.checks.page import page
from coterie.testing import Broker
from tests.conformance.brokers import DEFAULTS
from tests.conformance.others import build_kfake, dying, kafka_cluster, kafkas, kfake

_DIRECTORY = Path("build/conformance")
_OURS = "coterie"
# As many requests may end kfake before the command gives up.
_MOST_KFAKES = 5


def coterie(*arguments: str) -> tuple[int, str]:
    """Run the command line; return its exit code and its output."""
    command = [sys.executable, "-m", "coterie", *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    return done.returncode, done.stdout


def check(name: str, address: str, *options: str) -> dict[str, Any]:
    """Check one broker and write its files; return its results."""
    path = _DIRECTORY / name
    sys.stderr.write(f"{name} ...\n")
    code, text = coterie("check", address, "--json", "--junit", f"{path}.xml", *options)
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


def of_kfake(directory: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Check kfake until it survives: each round leaves out what ended the one before."""
    program = build_kfake(directory)
    without: list[str] = []
    for number in range(_MOST_KFAKES):
        with kfake(program) as address:
            options = [word for each in without for word in ("--except", each)]
            results = check(f"kfake-{number + 1}", address, *options)
        yield f"kfake-{number + 1}", results
        if results["stopped"] is None:
            return
        # The first line is the check whose request was sent last.
        name = results["stopped"]["last_sent"][0].partition(" ")[0]
        without.append("/".join(name.split("/")[:2]))


def of_others(arguments: list[str], directory: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Check the brokers of the command line; give the name and the results of each."""
    for argument in arguments:
        name, _, address = argument.partition("=")
        folder = directory / name
        folder.mkdir()
        if address:
            yield name, check(name, address)
        elif name == "kafka":
            for node, bootstrap in kafkas(folder):
                yield node, check(node, bootstrap)
        elif name == "cluster":
            with kafka_cluster(folder) as bootstrap:
                yield f"kafka-4.3.1-{name}", check(name, bootstrap)
        elif name == "kfake":
            yield from of_kfake(folder)
        elif name == "killed":
            with dying(folder) as bootstrap:
                yield name, check(name, bootstrap)
        else:
            raise SystemExit(
                f"{argument} is neither NAME=HOST:PORT nor kafka, cluster, kfake or killed"
            )


def main(arguments: list[str]) -> int:
    """Check our broker and those of the arguments; return 1 if ours, a Kafka or a check errs."""
    _DIRECTORY.mkdir(parents=True, exist_ok=True)
    with Broker(config=DEFAULTS) as ours:
        everything = {_OURS: check(_OURS, f"{ours.host}:{ours.port}")}
    with TemporaryDirectory(prefix="coterie-conformance-") as directory:
        everything |= dict(of_others(arguments, Path(directory)))
    for name in [*everything][1:]:
        both = page([everything[_OURS], everything[name]])
        (_DIRECTORY / f"{_OURS}-{name}.html").write_text(both, encoding="utf-8")
    print("| broker | as Kafka | checks | pass | deviates | fails | skipped | error | seconds |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, results in everything.items():
        print(row(name, results))
    for name, results in everything.items():
        print(f"\n{name}: skipped because")
        for reason, count in reasons(results).items():
            print(f"  {count:4}  {reason}")
        if results["stopped"]:
            print("\n".join([results["stopped"]["sentence"], *results["stopped"]["last_sent"]]))
    print(f"\npages in {_DIRECTORY}")
    bad = sum(
        each["counts"]["deviates"] + each["counts"]["fails"]
        for name, each in everything.items()
        if not name.startswith("kfake")
    ) + sum(each["counts"]["error"] for each in everything.values())
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
