"""What a tester reads when a test fails: real failing tests, and the whole of their reports."""

import re
import textwrap
from pathlib import Path

import pytest

from coterie.testing.exchanges import Exchanged
from coterie.testing.report import Installed, Moment, Report, request_lines
from tests.live.testing.pytest_runs import run_pytest

CONSUMER = """
    from contextlib import contextmanager
    import time
    from confluent_kafka import Consumer
    from coterie.testing import AnswerError, CloseBefore

    @contextmanager
    def reading(kafka, group_id, client_id="one"):
        config = kafka.client_config("confluent-kafka", group_id=group_id, client_id=client_id)
        consumer = Consumer({"log_level": 0, "enable.auto.commit": "false", **config})
        consumer.subscribe(["orders"])
        group = kafka.group(group_id)
        deadline = time.monotonic() + 60
        while group.state != "Stable" and time.monotonic() < deadline:
            consumer.poll(0.1)
        try:
            yield consumer
        finally:
            consumer.close()
"""
WAIT = (
    CONSUMER
    + """
    def test_wait(kafka):
        kafka.topic("orders", records=["a"])
        with reading(kafka, "billing") as consumer:
            with kafka.fault(AnswerError("UNKNOWN_MEMBER_ID"), api="OffsetCommit", times=1):
                while (message := consumer.poll(0.1)) is None:
                    pass
                try:
                    consumer.commit(message, asynchronous=False)
                except Exception:
                    pass
            kafka.group("billing").wait_stable(members=2, timeout_s=0.1)
"""
)
COMPARED = (
    CONSUMER
    + """
    def test_compared(kafka):
        kafka.topic("orders", records=["a"])
        with reading(kafka, "billing"):
            assert len(kafka.group("billing").members) == 2
"""
)
RAISED = (
    CONSUMER
    + """
    def test_raised(kafka):
        kafka.topic("orders", records=["a"])
        with reading(kafka, "billing"):
            raise ValueError("the service broke")
"""
)
WRONG_NAMES = (
    CONSUMER
    + """
    def test_group(kafka):
        kafka.topic("orders")
        with reading(kafka, "billing"):
            kafka.group("biling").wait_stable(timeout_s=0.1)

    def test_topic(kafka):
        kafka.topic("orders")
        with reading(kafka, "billing"):
            kafka.group("billing").wait_assigned("order", timeout_s=0.1)

    def test_fault(kafka):
        kafka.topic("orders")
        with reading(kafka, "billing"):
            while len(kafka.requests.of("Heartbeat")) < 1:
                time.sleep(0.01)
            fault = kafka.fault(CloseBefore(), api="Heartbeat")
            fault.remove()
            fault.must_have_hit()
"""
)
COROUTINES = """
    import asyncio
    import pytest

    pytestmark = pytest.mark.asyncio

    async def test_awaited(kafka):
        await kafka.group("billing").wait_stable(timeout_s=0.1)

    async def test_not_awaited(kafka):
        kafka.group("billing").wait_stable(timeout_s=0.1)
        await asyncio.sleep(0)

    async def test_not_awaited_on_a_shared_broker(kafka_session):
        kafka_session.group("billing").wait_stable(timeout_s=0.1)

    @pytest.mark.kafka(virtual_time=True)
    async def test_not_awaited_in_virtual_time(kafka):
        waiting = kafka.group("billing").wait_empty(timeout_s=5)
        await asyncio.sleep(0)
"""
SHARED = """
    def test_first(kafka_session):
        kafka_session.topic("t", records=["a"])
        from kafka import KafkaConsumer
        config = kafka_session.client_config("kafka-python", client_id="first")
        with_partitions = KafkaConsumer(**config).partitions_for_topic("t")
        kafka_session.delete_topic("t")
        assert with_partitions == {0}

    def test_second(kafka_session):
        assert kafka_session.groups == ["billing"]
"""
WRONG_CALLS = """
    import pytest

    class Held:
        pass

    def test_property_called(kafka):
        kafka.topics()

    def test_property_of_a_group(kafka):
        kafka.group("billing").members()

    def test_property_of_a_member(kafka):
        group = kafka.group("billing")
        group.state()

    def test_fault(kafka):
        kafka.fault("Produce", error="NOT_LEADER_OR_FOLLOWER")

    def test_argument(kafka):
        kafka.group("billing").wait_stable(members=2, timeout=5)

    def test_guessed(kafka):
        kafka.create_topic("orders")

    def test_guessed_of_a_group(kafka):
        kafka.group("billing").wait_until_stable()

    def test_near(kafka):
        kafka.bootstrap_serversx

    def test_held(kafka):
        held = Held()
        held.kafka = kafka
        held.kafka.groups()

    @pytest.mark.kafka(process=True)
    def test_process(kafka):
        kafka.produce(topics="t")

    def test_other_error(kafka):
        kafka.topics[0]()

    def test_of_somebody_else(kafka):
        Held().topic
"""
UNITTEST = """
    from coterie.testing import KafkaTestCase

    class TestBilling(KafkaTestCase):
        def test_waits(self):
            self.kafka.group("billing").wait_stable(timeout_s=0.1)

        def test_calls(self):
            self.kafka.topics()
"""
MARKS = """
    import pytest

    @pytest.mark.kafka(topics={"orders": 3})
    def test_session(kafka_session):
        pass

    @pytest.mark.kafka({"orders": 3})
    def test_by_position(kafka):
        pass

    @pytest.mark.kafka(leave="t")
    def test_unknown(kafka_session):
        pass

    @pytest.mark.kafka(topics={"orders": 3})
    def test_both(kafka, kafka_session):
        assert kafka.topics == {"orders": 3}
"""
TIMES = re.compile(r"\+\d+\.\d{3} s")


def report_of(output: str, test: str) -> str:
    """Return the part of the output about one test, without times, ids and widths."""
    head = rf"_+ (?:ERROR at \w+ of )?{test} _+\n"
    found = re.search(rf"{head}(.*?)\n(?=_{{5}}|={{5}})", output, re.DOTALL)
    assert found, output
    text = re.sub(r"…\w+|(?<=127.0.0.1:)\d+|last heard [\d.]+ s|in \d+ ms|, \d+ ms", "_", found[1])
    return re.sub(r"-{5,}( [\w ]+ )-{5,}", r"-----\1-----", TIMES.sub("+_ s", text))


def shows(report: str, *texts: str) -> None:
    """Check that lines are in a report, in this order."""
    position = 0
    for text in texts:
        position = report.find(text, position)
        assert position >= 0, f"{text!r} is not in\n{report}"


def test_failed_wait_is_its_picture_only(tmp_path: Path) -> None:
    """The line of the test and the picture: no frame of ours, no second traceback."""
    code, output = run_pytest(tmp_path, [WAIT])
    assert code == 1
    report = report_of(output, "test_wait")
    expected = """
        >           kafka.group("billing").wait_stable(members=2, timeout_s=0.1)
        E           coterie.testing.errors.WaitTimedOut: group 'billing' is Stable with 2 members: not so within 0.1 s
        E           group 'billing': Stable, generation 1, 1 member
        E             one (_) at 127.0.0.1: has orders-0; _ ago, session 6 s

        test_0.py:31: WaitTimedOut
        ----- groups of kafka -----
        group 'billing': Stable, generation 1, 1 member
          one (_) at 127.0.0.1: has orders-0; _ ago, session 6 s
          generation 1: join of one_, 1 member, 0 of 1 partitions moved
        ----- last requests to kafka -----
    """  # noqa: E501
    assert textwrap.dedent(expected).strip() in report, report
    assert "get_running_loop" not in output
    assert "During handling" not in output
    shows(
        report,
        "+_ s  one  JoinGroup v5        billing  -> MEMBER_ID_REQUIRED\n",
        "+_ s  one  JoinGroup v5        billing  -> ok, generation 1\n",
        "+_ s  one  OffsetCommit v9     billing  -> UNKNOWN_MEMBER_ID  (fault 1)\n",
        "fault 1: AnswerError(error='UNKNOWN_MEMBER_ID') for OffsetCommit, 1 hit",
    )
    # Kafka's own clock says nothing to a tester.
    assert float(re.findall(r"\+(\d+\.\d+) s", output)[-1]) < 60


def test_report_of_a_false_comparison_is_of_that_moment(tmp_path: Path) -> None:
    """The consumer has left when pytest sees the failure."""
    _, output = run_pytest(tmp_path, [COMPARED])
    report = report_of(output, "test_compared")
    shows(
        report,
        "----- groups of kafka -----\ngroup 'billing': Stable, generation 1, 1 member",
        "----- the test has failed; its tear-down follows -----\n",
        "LeaveGroup v1",
    )
    assert "Empty" not in report


def test_groups_before_a_possible_tear_down_are_shown(tmp_path: Path) -> None:
    """Nothing says when another exception was raised, so both moments are in the report."""
    _, output = run_pytest(tmp_path, [RAISED])
    shows(
        report_of(output, "test_raised"),
        "ValueError: the service broke",
        "----- groups of kafka -----\ngroup 'billing': Empty, generation 2, 0 members",
        "before members left at +_ s, perhaps of the tear-down:\n"
        "  group 'billing': Stable, generation 1, 1 member\n",
        "LeaveGroup v1       billing  -> ok",
    )


def exchanged(number: int, request: str, fault: int | None = None) -> Exchanged:
    error = "REBALANCE_IN_PROGRESS" if fault else "ok"
    return Exchanged(number, 1000 * number, "one", request, "g", error, fault, None)


def test_polling_takes_one_line() -> None:
    """Heartbeats push nothing out of the report, and none with an error is joined with others."""
    polled = [exchanged(at, ("Fetch v4", "Heartbeat v3")[at % 2]) for at in range(1, 100)]
    requests = (
        exchanged(0, "JoinGroup v5"),
        *polled,
        exchanged(100, "Heartbeat v3", 1),
        exchanged(101, "Heartbeat v3"),
        exchanged(102, "LeaveGroup v1"),
    )
    report = Report(0, 103, "", (Installed(1, 50, "a fault"),), requests, ())
    assert request_lines(report, Moment(0, 0), Moment(0, 102)) == [
        "  +0.000 s  one  JoinGroup v5   g  -> ok",
        "  +1.000 s  one  Heartbeat v3   g  -> ok  (50 times until +99.000 s)",
        "  +2.000 s  one  Fetch v4       g  -> ok  (49 times until +98.000 s)",
        "+100.000 s  one  Heartbeat v3   g  -> REBALANCE_IN_PROGRESS  (fault 1)",
        "+101.000 s  one  Heartbeat v3   g  -> ok",
        "----- the test has failed; its tear-down follows -----",
        "+102.000 s  one  LeaveGroup v1  g  -> ok",
        "fault 1: a fault",
    ]


def test_errors_of_unittest_are_explained_too(tmp_path: Path) -> None:
    _, output = run_pytest(tmp_path, [UNITTEST])
    shows(report_of(output, r"TestBilling\.test_calls"), "write `self.kafka.topics`")
    report = report_of(output, r"TestBilling\.test_waits")
    shows(report, "E       coterie.testing.errors.WaitTimedOut", "test_0.py:6: WaitTimedOut")
    assert "def wait_stable" not in report


def test_wrong_names_are_corrected(tmp_path: Path) -> None:
    _, output = run_pytest(tmp_path, [WRONG_NAMES])
    shows(
        report_of(output, "test_group"),
        "group 'biling' does not exist: no client has joined or committed; did you mean billing?",
    )
    shows(report_of(output, "test_topic"), "topic 'order' does not exist; did you mean orders?")
    report = report_of(output, "test_fault")
    shows(report, "no Heartbeat was received while the fault was installed; 1 before\n")
    assert "def must_have_hit" not in report


def test_wait_that_nobody_awaits_fails_its_test(tmp_path: Path) -> None:
    code, output = run_pytest(tmp_path, [COROUTINES])
    assert code == 1
    assert "1 failed, 3 passed, 3 errors" in output, output
    awaited = report_of(output, "test_awaited")
    assert "def __await__" not in awaited
    assert "def until" not in awaited
    for test, line in (
        ("test_not_awaited", '`kafka.group("billing").wait_stable(timeout_s=0.1)` in test_0.py:11'),
        ("test_not_awaited_on_a_shared_broker", "in test_0.py:15"),
        ("test_not_awaited_in_virtual_time", "in test_0.py:19"),
    ):
        report = report_of(output, test)
        shows(report, line, "which was never awaited: write `await ...`")
        assert "coterie/" not in report


def test_report_of_a_shared_broker_begins_with_the_test(tmp_path: Path) -> None:
    _, output = run_pytest(tmp_path, [SHARED])
    report = report_of(output, "test_second")
    shows(report, "last requests to kafka_session", "no requests")
    assert "first" not in report


@pytest.fixture(scope="module")
def wrong_calls(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The output of the tests with wrong calls."""
    return run_pytest(tmp_path_factory.mktemp("wrong"), [WRONG_CALLS])[1]


# One worker runs the tests with wrong calls.
@pytest.mark.xdist_group("wrong calls")
@pytest.mark.parametrize(
    ("test", "text"),
    [
        ("test_property_called", "`topics` is no method: write `kafka.topics`"),
        ("test_property_of_a_group", "write `kafka.group('billing').members`"),
        ("test_property_of_a_member", "`state` is no method: write `group.state`"),
        ("test_fault", 'write `kafka.fault(AnswerError("NOT_LEADER_OR_FOLLOWER"), api="Produce")`'),
        ("test_argument", "kafka.group('billing').wait_stable(members=None, timeout_s=15.0)`"),
        ("test_guessed", 'Broker has no `create_topic`: write `kafka.topic("orders", partitions=3'),
        ("test_guessed_of_a_group", 'write `kafka.group("billing").wait_stable(members=2)`'),
        ("test_near", "did you mean bootstrap_servers"),
        ("test_held", "write `held.kafka.groups`"),
        ("test_process", "`produce` is called as `kafka.produce(topic, *values, key=None"),
    ],
)
def test_wrong_call_says_the_right_one(wrong_calls: str, test: str, text: str) -> None:
    assert text in report_of(wrong_calls, test)


@pytest.mark.xdist_group("wrong calls")
@pytest.mark.parametrize("test", ["test_other_error", "test_of_somebody_else"])
def test_other_errors_are_left_alone(wrong_calls: str, test: str) -> None:
    assert "write `" not in report_of(wrong_calls, test)


def test_mark_that_describes_no_broker_of_the_test_is_an_error(tmp_path: Path) -> None:
    code, output = run_pytest(tmp_path, [MARKS])
    assert code == 1
    assert "1 passed, 3 errors" in output, output
    shows(
        report_of(output, "test_session"),
        "@pytest.mark.kafka(topics=...) describes the broker of the fixture `kafka`, and this test"
        " uses `kafka_session`",
    )
    shows(report_of(output, "test_by_position"), "takes options by name", "{'orders': 3}")
    shows(report_of(output, "test_unknown"), "not leave")
