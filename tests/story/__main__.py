"""Run the story: `python -m tests.story [--kafka HOST:PORT [--kafka-data DIR]] [--groups A,B]`.

In a story of its own the broker is killed and started again; a real Kafka, if `--kafka-restart`
says how.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from tests.live.broker_process import FAST_GROUPS, KAFKA_MIN_SESSION_MS, BrokerProcess
from tests.story.compare import contradictions
from tests.story.judged import untold, verdicts
from tests.story.record import Record
from tests.story.restart import BEFORE, run_restart
from tests.story.scenario import SCENARIOS, Scenario
from tests.story.shown import Shown, seen_in_logs, seen_in_tables
from tests.story.workload import Workload

OUR_SESSION_MS = 3_000
# A JVM broker needs about ten seconds to start, and many times that on a busy machine.
_COMMAND_LIMIT_S = 180.0


def main() -> int:
    """Run the story and print what contradicts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kafka", metavar="HOST:PORT", help="a real Kafka to run it against, too")
    parser.add_argument("--kafka-data", metavar="DIR", help="its data directory; else it is asked")
    parser.add_argument(
        "--kafka-restart",
        nargs=2,
        metavar=("KILL", "START"),
        help="commands that kill and start it",
    )
    parser.add_argument(
        "--only-restart", action="store_true", help="only the story in which the broker is killed"
    )
    parser.add_argument("--groups", metavar="A,B", help="only these groups")
    parser.add_argument("--at-once", type=int, default=4, help="groups that run at the same time")
    parser.add_argument("--quick", action="store_true", help="read the logs without tables")
    parser.add_argument("--keep", metavar="DIR", help="keep logs, tables and page there")
    options = parser.parse_args()
    wanted = options.groups.split(",") if options.groups else [each.group for each in SCENARIOS]
    scenarios = [each for each in SCENARIOS if each.group in wanted]
    with tempfile.TemporaryDirectory() as made:
        directory = Path(options.keep or made)
        directory.mkdir(parents=True, exist_ok=True)
        data = directory / "data"
        broker = BrokerProcess(data, FAST_GROUPS)
        found: list[str] = []
        if not options.only_restart:
            broker.start()
            try:
                found += _story(
                    "Coterie", broker.bootstrap, str(data), directory, scenarios,
                    session_ms=OUR_SESSION_MS, at_once=options.at_once, quick=options.quick,
                )  # fmt: skip
            finally:
                broker.stop()
        if not options.groups and not options.quick:
            found += _our_restart(directory)
        if options.kafka:
            source = options.kafka_data or f"kafka://{options.kafka}"
            suffix = f"-{int(time.time())}"
            if not options.only_restart:
                found += _story(
                    "Kafka", options.kafka, source, directory, scenarios,
                    session_ms=KAFKA_MIN_SESSION_MS, at_once=options.at_once,
                    quick=options.quick, suffix=suffix,
                )  # fmt: skip
            if options.kafka_restart:
                kill, begin = (partial(_command, each) for each in options.kafka_restart)
                workload = Workload(options.kafka, KAFKA_MIN_SESSION_MS, suffix)
                found += _restart("Kafka restarted", workload, source, directory, kill, begin)
    return 1 if found else 0


def _our_restart(directory: Path) -> list[str]:
    data = directory / "restarted"
    broker = BrokerProcess(data, FAST_GROUPS)
    broker.start()
    try:
        workload = Workload(broker.bootstrap, OUR_SESSION_MS)
        return _restart(
            "Coterie restarted", workload, str(data), directory, broker.kill, broker.start
        )
    finally:
        broker.stop()


def _command(text: str) -> None:
    subprocess.run(["/bin/sh", "-c", text], check=True, timeout=_COMMAND_LIMIT_S)


def _restart(
    name: str,
    workload: Workload,
    source: str,
    directory: Path,
    kill: Callable[[], object],
    begin: Callable[[], object],
) -> list[str]:
    """Kill the broker under live groups, and judge the findings by the log."""
    began = time.monotonic()
    record = workload.record
    try:
        run_restart(workload, kill, begin)
        ran_s = time.monotonic() - began
        place = directory / name.lower().replace(" ", "-")
        place.mkdir(exist_ok=True)
        record.write(place / "log.jsonl")
        groups = [workload.name(each) for each in BEFORE]
        shown = seen_in_tables(workload.bootstrap, source, place, groups)
    finally:
        workload.close()
    found = _judge(record, shown, [])
    _print(name, record, shown, found, ran_s)
    return found


def _judge(record: Record, shown: Shown, found: list[str]) -> list[str]:
    """Judge every finding, print the verdicts, and return what contradicts the log."""
    judged = verdicts(record, shown.findings)
    for each in judged:
        print(f"  {each}")
    found += [str(each) for each in judged if each.is_right is False]
    exits = {
        row["member_id"]: row["exit_kind"]
        for story in shown.stories.values()
        for row in story.group.tables["member_sessions"]
    }
    return found + list(untold(record, shown.findings, exits))


def _story(
    name: str,
    bootstrap: str,
    source: str,
    directory: Path,
    scenarios: Sequence[Scenario],
    *,
    session_ms: int,
    at_once: int,
    quick: bool,
    suffix: str = "",
) -> list[str]:
    workload = Workload(bootstrap, session_ms, suffix)
    began = time.monotonic()
    try:
        workload.run(scenarios, at_once)
        ran_s = time.monotonic() - began
        groups = [workload.name(each) for each in scenarios]
        place = directory / name.lower()
        place.mkdir(exist_ok=True)
        workload.record.write(place / "log.jsonl")
        shown = (
            seen_in_logs(bootstrap, source, groups)
            if quick
            else seen_in_tables(bootstrap, source, place, groups)
        )
        found = contradictions(workload.record, shown, session_ms)
        if not quick:
            found = _judge(workload.record, shown, found)
        # The lines of the members are gone when they are closed.
        _print(name, workload.record, shown, found, ran_s)
    finally:
        workload.close()
    return found


def _print(name: str, record: Record, shown: Shown, found: list[str], ran_s: float) -> None:
    rebalances = [row for story in shown.stories.values() for row in story.group.rebalances]
    print(
        f"{name}: {len(shown.stories)} groups, {len(record.sessions)} member sessions,"
        f" {len(rebalances)} rebalances, {sum(1 for _ in record.lines())} lines of log in"
        f" {ran_s:.0f} s; {len(found)} contradictions"
    )
    signals = Counter(session.end or "alive" for session in record.sessions)
    said = Counter(
        row["exit_kind"] or "alive"
        for story in shown.stories.values()
        for row in story.group.tables["member_sessions"]
    )
    print(f"  the log: {_counted(signals)}; the tables: {_counted(said)}")
    for sentence in found:
        print(f"  {sentence}")


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {what}" for what, count in counts.most_common())


if __name__ == "__main__":
    sys.exit(main())
