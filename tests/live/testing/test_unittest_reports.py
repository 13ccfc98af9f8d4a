"""What a tester reads when a test of `KafkaTestCase` fails, with unittest and with pytest."""

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.live.testing.pytest_runs import TIMEOUT_S, environment, run_pytest
from tests.live.testing.test_reports import CONSUMER, shows

# One worker prepares what its tests share.
pytestmark = pytest.mark.xdist_group("unittest reports")

TESTS = (
    CONSUMER
    + """
    import unittest
    from coterie.testing import KafkaTestCase

    class TestBilling(KafkaTestCase):
        kafka_topics = {"orders": 1}

        def tearDown(self):
            self.kafka.topic("later")

        def test_waits(self):
            fault = AnswerError("UNKNOWN_MEMBER_ID")
            with reading(self.kafka, "billing") as consumer:
                with self.kafka.fault(fault, api="OffsetCommit", times=1):
                    self.kafka.produce("orders", "a")
                    while (message := consumer.poll(0.1)) is None:
                        pass
                    try:
                        consumer.commit(message, asynchronous=False)
                    except Exception:
                        pass
                self.kafka.group("billing").wait_stable(members=2, timeout_s=0.1)

        def test_compares(self):
            with reading(self.kafka, "billing"):
                self.assertEqual(len(self.kafka.group("billing").members), 2)

        def test_calls(self):
            self.kafka.topics()

        def test_parts(self):
            for name in ("first", "second"):
                with self.subTest(name=name):
                    raise ValueError(name)

        @unittest.expectedFailure
        def test_expected(self):
            self.fail("as expected")

        def test_skipped(self):
            self.skipTest("a reason")

        def test_passes(self):
            pass

    class TestSetUp(KafkaTestCase):
        def setUp(self):
            super().setUp()
            raise ValueError("the service broke")

        def test_never(self):
            pass

    class TestCoroutine(KafkaTestCase, unittest.IsolatedAsyncioTestCase):
        async def test_awaits(self):
            await self.kafka.group("billing").wait_stable(timeout_s=0.1)
"""
)
GROUPS, REQUESTS = "----- groups of self.kafka -----", "----- last requests to self.kafka -----"


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What unittest prints of the tests."""
    directory = tmp_path_factory.mktemp("unittest")
    (directory / "test_billing.py").write_text(textwrap.dedent(TESTS))
    ended = subprocess.run(
        [sys.executable, "-m", "unittest", "-v", "test_billing"],
        cwd=directory,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert "FAILED (failures=3, errors=4, skipped=1, expected failures=1)" in ended.stderr
    return ended.stderr


def report_of(output: str, test: str) -> str:
    """Return what unittest prints of one failure."""
    parts = re.split(r"\n={70}\n", output)
    (found,) = [each for each in parts[1:] if test in each.partition("\n")[0]]
    return found.partition("\nRan ")[0]


def test_failed_wait_has_groups_requests_and_faults(output: str) -> None:
    report = report_of(output, "test_waits")
    shows(
        report,
        "WaitTimedOut: group 'billing' is Stable with 2 members: not so within 0.1 s",
        f"{GROUPS}\ngroup 'billing': Stable, generation 1, 1 member\n",
        REQUESTS,
        "JoinGroup v5        billing  -> ok, generation 1\n",
        "OffsetCommit v9     billing  -> UNKNOWN_MEMBER_ID  (fault 1)\n",
        "fault 1: AnswerError(error='UNKNOWN_MEMBER_ID') for OffsetCommit, 1 hit",
    )
    # The line of the test is all that is shown of code.
    assert re.findall(r'File ".*/(\w+).py"', report) == ["test_billing"]
    assert "CreateTopics" not in report


def test_other_errors_have_both_moments(output: str) -> None:
    shows(
        report_of(output, "test_compares"),
        "AssertionError: 1 != 2",
        GROUPS,
        "before members left at",
        "group 'billing': Stable, generation 1, 1 member",
        REQUESTS,
        "LeaveGroup v1",
    )


def test_wrong_call_says_the_right_one(output: str) -> None:
    shows(report_of(output, "test_calls"), "write `self.kafka.topics`", GROUPS)


def test_error_in_a_part_of_a_test_or_in_its_set_up_has_sections(output: str) -> None:
    for title in ("(name='first')", "(name='second')", "TestSetUp.test_never", "test_awaits"):
        report = report_of(output, title)
        shows(report, GROUPS, REQUESTS)
        assert report.count(GROUPS) == 1
        # The frames of asyncio come first where there are some, and those of unittest stay behind.
        assert "coterie/testing" not in report or "asyncio/runners" in report


def test_reports_of_pytest_have_the_sections_too(tmp_path: Path) -> None:
    code, printed = run_pytest(tmp_path, [TESTS])
    assert code == 1
    # In the error, and not a second time from the plugin.
    assert len(re.findall(f"^E +{GROUPS}$", printed, re.MULTILINE)) == printed.count(GROUPS) == 7


SEVERAL = """
    from coterie.testing import Cluster, KafkaTestCase, ProcessBroker, ProcessCluster

    class TestCluster(KafkaTestCase):
        kafka: Cluster
        kafka_brokers = 3
        kafka_topics = {"orders": 3}
        kafka_options = {"security": "SASL_SSL", "users": ["alice"]}

        def test_kills(self):
            self.kafka.kill(self.kafka.leader_of("orders"))
            self.kafka.wait_leader("orders")
            assert self.kafka.users == ["alice"]

        def test_fails(self):
            self.kafka.kill(2)
            self.assertEqual(self.kafka.brokers, [1, 2, 3])

    class TestProcess(KafkaTestCase):
        kafka_brokers = 2
        kafka_process = True

        def test_has_several(self):
            assert isinstance(self.kafka, ProcessCluster)
            assert self.kafka.brokers == [1, 2]

    class TestOneProcess(KafkaTestCase):
        kafka_process = True

        def test_has_one(self):
            assert isinstance(self.kafka, ProcessBroker)
"""


def test_test_case_has_several_brokers_and_processes(tmp_path: Path) -> None:
    code, printed = run_pytest(tmp_path, [SEVERAL])
    assert code == 1
    assert "3 passed" in printed, printed
    shows(printed, "Lists differ: [1, 3] != [1, 2, 3]", "brokers that run: 1, 3; down: 2", REQUESTS)
