"""librdkafka's own test suite passes with three brokers, as far as brokers without security allow.

The npm package of Confluent's JavaScript client has the source with its tests; they are built here
once, which takes about ten minutes. Every test runs alone, in the quick mode of the suite, which
leaves some parts of tests out.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

from coterie.lab.live.parts import KAFKA_4_TOOLS, jars_of, java_command
from tests.interop.model import Surroundings
from tests.interop.suites import Outcome, built, call, judge, need, run_test

# The suite is made for a cluster with this setting (tests/scenarios/default.json).
CONFIG = {"num.partitions": "4", "group.initial.rebalance.delay.ms": "0"}
BROKERS = 3
_PACKAGE = "@confluentinc/kafka-javascript@1.10.1"
_RELEASE = "librdkafka-2.15.1"
_FOLDER = f"{_RELEASE}-unchanged"
_TESTS = Path("package", "deps", "librdkafka", "tests")
# Tests from this number on are of share groups, which a broker may lack.
_SHARE_GROUPS = "0170"
_LIMIT_S = 240.0
# Of a test that does not run in the quick mode.
_WHOLE_LIMIT_S = 1200.0
_AT_ONCE = 2
_SCRIPTS = {"kafka-topics.sh": "org.apache.kafka.tools.TopicCommand"}
_ADMIN_TEST = "0081"
# The parts of 0081_admin that need neither authorizer nor SASL.
_ADMIN = [
    *("CreateTopics", "DeleteTopics", "CreatePartitions", "AlterConfigs"),
    *("IncrementalAlterConfigs", "DescribeConfigs", "DeleteRecords", "ListConsumerGroups"),
    *("DescribeConsumerGroups", "DescribeTopics", "DescribeCluster", "DeleteGroups"),
    *("DeleteConsumerGroupOffsets", "AlterConsumerGroupOffsets", "ListConsumerGroupOffsets"),
    "ListOffsets",
]
_ACLS = "access control lists"
# By the name of a test, why it fails.
EXPLAINED = {
    "0109_auto_create_topics": _ACLS,
    "0115_producer_auth": _ACLS,
    "0119_consumer_auth": _ACLS,
}
# Lines of the summary: | 0001_multiobj | PASSED | 1.135s |
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_ROW = re.compile(r"^\| *(\d{4}_\w+) *\| *(PASSED|SKIPPED|FAILED) *\|(.*)", re.MULTILINE)
# Of tests that need no broker, which are not asked for.
_LEFT_OUT = "Filtered due to"
_FAILURE = re.compile(r'### Test "(\d{4}_\w+).*?failed at [^#]*###\n[^\n]*')
_RESULTS = {"PASSED": "pass", "SKIPPED": "skip", "FAILED": "fail"}


class Choice(NamedTuple):
    """A test, by its number.

    Attributes:
        part: the part of it, or an empty text.
        is_quick: whether it runs in the quick mode of the suite, which leaves parts out.
    """

    test: str
    part: str = ""
    is_quick: bool = True


def run(around: Surroundings) -> None:
    """Build the suite and run all tests but those of share groups."""
    choices = [Choice(number) for number in sources("")]
    choices += [Choice(_ADMIN_TEST, part) for part in _ADMIN]
    run_suite(around, "classic", choices, EXPLAINED)


def sources(text: str) -> list[str]:
    """Return the numbers of the tests in whose source a text occurs."""
    paths = (built(_FOLDER, _build) / _TESTS).glob("0[0-9][0-9][0-9]-*.c*")
    found = sorted({path.name[:4] for path in paths if text in path.read_text(encoding="utf-8")})
    return [number for number in found if number != _ADMIN_TEST and number < _SHARE_GROUPS]


def run_suite(
    around: Surroundings,
    protocol: str,
    choices: Sequence[Choice],
    explained: Mapping[str, str],
    patience: float = 1.0,
) -> None:
    """Run tests, two at once; those that fail run again, one by one.

    Args:
        around: the broker, and where the suite writes.
        protocol: `group.protocol` of the consumers, unless a test sets its own.
        choices: the tests.
        explained: see `judge`.
        patience: by how much the deadlines of the tests are longer.
    """
    tests = built(_FOLDER, _build) / _TESTS
    environment = {
        **_environment(around, tests, patience),
        "TEST_CONSUMER_GROUP_PROTOCOL": protocol,
    }
    once = partial(_run_one, around, tests, environment)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        found = list(pool.map(once, choices))
    for place, choice in enumerate(choices):
        # Many tests have deadlines that a loaded machine misses.
        if any(each.result == "fail" and each.test not in explained for each in found[place]):
            found[place] = once(choice)
    outcomes = [each for part in found for each in part]
    judge(around, f"{_RELEASE}, {protocol}", outcomes, explained)


def _build(folder: Path) -> None:
    need("npm", "it fetches the source")
    need("make", "the suite is built with it, and with a compiler of C++")
    call(["npm", "pack", "--ignore-scripts", _PACKAGE], folder)
    archive = next(folder.glob("*.tgz"))
    call(["tar", "xzf", archive.name], folder)
    archive.unlink()
    tests = folder / _TESTS
    without = ("--disable-gssapi", "--disable-curl", "--disable-zstd")
    call(["./configure", *without], tests.parent)
    call(["make", "-j1", "libs"], tests.parent)
    call(["make", "-j1", "-C", "tests", "build"], tests.parent)


def _environment(around: Surroundings, tests: Path, patience: float) -> dict[str, str]:
    """Return variables for the tests; the configuration and Kafka's scripts are written."""
    settings = around.directory / "test.conf"
    lines = [
        "test.topic.random=true",
        f"test.timeout.multiplier={patience}",
        f"metadata.broker.list={around.bootstrap}",
    ]
    settings.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    scripts = around.directory / "kafka" / "bin"
    scripts.mkdir(parents=True)
    jars = jars_of(KAFKA_4_TOOLS, around.note)
    for name, main_class in _SCRIPTS.items():
        command = " ".join(f"'{word}'" for word in java_command(jars, main_class))
        script = scripts / name
        script.write_text(f'#!/bin/sh\nexec {command} "$@"\n', encoding="utf-8")
        script.chmod(0o755)
    libraries = tests.parent
    return {
        "RDKAFKA_TEST_CONF": str(settings),
        "LD_LIBRARY_PATH": f"{libraries / 'src'}:{libraries / 'src-cpp'}",
        "TEST_KAFKA_VERSION": "4.3.1",
        "KAFKA_PATH": str(scripts.parent),
        "BROKERS": around.bootstrap,
    }


def _run_one(
    around: Surroundings, tests: Path, environment: dict[str, str], choice: Choice
) -> list[Outcome]:
    """Run a test, or a part of it, alone."""
    variables = {**environment, "TESTS": choice.test}
    if choice.part:
        variables["SUBTESTS"] = f"do_test_{choice.part}"
    log = around.directory / f"{choice.test}{choice.part}.log"
    command = [str(tests / "test-runner"), "-L", "-p1"]
    command += ["-Q"] if choice.is_quick else []
    limit_s = _LIMIT_S if choice.is_quick else _WHOLE_LIMIT_S
    printed = _COLOURS.sub("", run_test(command, tests, log, variables, limit_s))
    return [_with_part(each, choice.part) for each in _outcomes(choice.test, printed)]


def _with_part(outcome: Outcome, part: str) -> Outcome:
    return outcome._replace(test=f"{outcome.test} {part}".strip())


def _outcomes(number: str, printed: str) -> Iterator[Outcome]:
    """Return what the runner of the suite reports; it aborts if a test fails, without a summary."""
    rows = _ROW.findall(printed)
    for test, result, why in rows:
        if _LEFT_OUT not in why:
            yield Outcome(test, _RESULTS[result])
    failure = _FAILURE.search(printed)
    if failure is not None:
        yield Outcome(failure[1], "fail", failure[0])
    elif not rows:
        yield Outcome(number, "fail", printed[-300:].strip())
