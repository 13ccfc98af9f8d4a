"""The integration tests of franz-go's own suite pass: groups and transactions with many records.

The package kgo is tested with its own program. The tests that move records from topic to topic
run again with connections that break, and with transactions that begin before the one before has
ended.
"""

from tests.interop.go_suites import build_tests, outcomes, package_directory
from tests.interop.model import Surroundings
from tests.interop.suites import built, judge, run_test

CONFIG = {"group.initial.rebalance.delay.ms": "0"}
_MODULE = "github.com/twmb/franz-go"
_VERSION = "v1.22.2"
_PACKAGE = "kgo"
_LIMIT_S = 600.0
_MOVING = ["-test.run", "GroupETL|TxnEtl", "-test.skip", "Share"]
# What is run, the variables of the suite besides the address, and options of its program.
_RUNS: list[tuple[str, dict[str, str], list[str]]] = [
    ("all tests", {"KGO_TEST_RECORDS": "10000"}, []),
    ("100,000 records", {"KGO_TEST_RECORDS": "100000"}, _MOVING),
    ("broken connections", {"KGO_TEST_RECORDS": "20000", "KGO_TEST_CHAOS": "1"}, _MOVING),
    ("overlapping transactions", {"KGO_TEST_RECORDS": "20000", "KGO_TEST_UNSAFE": "1"}, _MOVING),
]


def run(around: Surroundings) -> None:
    """Build the tests of kgo and run them in each way."""
    folder = built(
        f"franz-go-{_VERSION}-{_PACKAGE}",
        lambda new: build_tests(new, _MODULE, _VERSION, {_PACKAGE: f"{_MODULE}/pkg/{_PACKAGE}"}),
    )
    common = {
        "KGO_SEEDS": around.bootstrap,
        "KGO_TEST_RF": "1",
        "KGO_LOG_LEVEL": "none",
    }
    command = [str(folder / _PACKAGE), "-test.v", f"-test.timeout={_LIMIT_S:.0f}s"]
    for what, variables, options in _RUNS:
        printed = run_test(
            [*command, *options],
            package_directory(folder, _PACKAGE),
            around.directory / "franz-go.log",
            {**common, **variables},
            _LIMIT_S + 10,
        )
        judge(around, f"franz-go {_VERSION}, {what}", outcomes(printed), {})
