"""What the test suites of client libraries print is read by `tests.interop`."""

from pathlib import Path

import pytest

from coterie.processes import Children
from tests.interop.go_suites import outcomes
from tests.interop.kept_reports import outcomes_of
from tests.interop.model import Failed, Surroundings
from tests.interop.suites import Outcome, judge
from tests.interop.tool_runs import differences

_PRINTED = """=== RUN   TestOne
--- PASS: TestOne (0.00s)
=== RUN   TestTwo
    two_test.go:5: no offset
--- FAIL: TestTwo (0.10s)
    --- FAIL: TestTwo/part (0.10s)
--- SKIP: TestThree (0.00s)
FAIL
"""

_REPORT = """<testsuite>
<testcase name="one()" classname="kafka.api.SomeTest"/>
<testcase name="two()[1]" classname="kafka.api.SomeTest">
<failure message="no">at x</failure>
</testcase>
<testcase name="three()" classname="kafka.api.SomeTest"><skipped/></testcase>
</testsuite>"""


@pytest.fixture
def around(tmp_path: Path) -> Surroundings:
    """Return surroundings in which nothing runs."""
    return Surroundings("127.0.0.1:9", None, tmp_path, Children(tmp_path))


def test_each_test_of_a_go_program_is_read() -> None:
    found = list(outcomes(_PRINTED))
    assert [(each.test, each.result) for each in found] == [
        ("TestOne", "pass"),
        ("TestTwo", "fail"),
        ("TestThree", "skip"),
    ]
    assert found[1].text.endswith("no offset")


def test_go_program_that_ends_early_has_failed() -> None:
    found = list(outcomes("--- PASS: TestOne (0.00s)\n\npanic: runtime error\n"))
    assert [each.result for each in found] == ["pass", "fail"]


def test_unexplained_failure_fails_the_program(around: Surroundings) -> None:
    with pytest.raises(Failed, match=r"(?s)TestTwo: .*no offset"):
        judge(around, "suite", outcomes(_PRINTED), {})


def test_explained_failures_are_counted(around: Surroundings) -> None:
    judge(around, "suite", outcomes(_PRINTED), {"TestTwo": "one broker"})
    assert around.facts == ["suite: 1 passed, 1 skipped, 1 fail (one broker)"]


def test_suite_without_a_passed_test_fails(around: Surroundings) -> None:
    with pytest.raises(Failed, match="no test passed"):
        judge(around, "suite", [Outcome("TestThree", "skip")], {})


def _reporting(report: Path) -> str:
    report.mkdir(parents=True)
    (report / "TEST-junit.xml").write_text(_REPORT)
    return ""


def _interrupted(report: Path) -> str:
    report.mkdir(parents=True)
    return "killed"


def test_each_test_of_a_junit_report_is_read(tmp_path: Path) -> None:
    found, was_kept = outcomes_of("SomeTest", tmp_path, _reporting, lambda _: True)
    assert found == [
        Outcome("SomeTest.one()", "pass"),
        Outcome("SomeTest.two()[1]", "fail", "no at x"),
        Outcome("SomeTest.three()", "skip"),
    ]
    assert not was_kept


def test_class_with_explained_failures_does_not_run_again(tmp_path: Path) -> None:
    first = outcomes_of("SomeTest", tmp_path, _reporting, lambda _: True)
    again = outcomes_of("SomeTest", tmp_path, _interrupted, lambda _: True)
    assert again == (first[0], True)


def test_class_with_another_failure_runs_again(tmp_path: Path) -> None:
    outcomes_of("SomeTest", tmp_path, _reporting, lambda _: False)
    found, was_kept = outcomes_of("SomeTest", tmp_path, _interrupted, lambda _: False)
    assert [each.result for each in found] == ["fail"]
    assert not was_kept


def test_interrupted_class_fails_and_runs_again(tmp_path: Path) -> None:
    found, _ = outcomes_of("SomeTest", tmp_path, _interrupted, lambda _: True)
    assert found == [Outcome("SomeTest", "fail", "JUnit has not come to an end: killed")]
    assert len(outcomes_of("SomeTest", tmp_path, _reporting, lambda _: True)[0]) == 3


def test_lines_in_another_order_are_shown() -> None:
    assert list(differences(["a", "b", "c"], ["b", "a", "c"])) == ["  ours  b", "  Kafka b"]
