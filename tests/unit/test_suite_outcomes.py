"""What the test suites of client libraries print is read by `tests.interop`."""

from pathlib import Path

import pytest

from coterie.processes import Children
from tests.interop.go_suites import outcomes
from tests.interop.model import Failed, Surroundings
from tests.interop.suites import Outcome, judge

_PRINTED = """=== RUN   TestOne
--- PASS: TestOne (0.00s)
=== RUN   TestTwo
    two_test.go:5: no offset
--- FAIL: TestTwo (0.10s)
    --- FAIL: TestTwo/part (0.10s)
--- SKIP: TestThree (0.00s)
FAIL
"""


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
