"""Fixtures of the live tests: a broker, unique names, and members that are ended with the test."""

import gc
import os
import uuid
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from coterie.address import Address
from coterie.processes import first_answer
from demo.producer import QUIET_LOG_LEVEL
from tests.live import libraries
from tests.live.broker_process import (
    FAST_CONSUMER_GROUPS,
    FAST_GROUPS,
    KAFKA_MIN_SESSION_MS,
    Broker,
    BrokerProcess,
)
from tests.live.deadlines import eventually
from tests.live.groups import ADMIN_LIMIT_S, produce_rows
from tests.live.members import Members

HERE = Path(__file__).parent


# Warnings that client libraries cause.
CLIENT_WARNINGS = (
    # kafka-python 3.0 loads schemas with importlib.resources.read_text, also long after import.
    "ignore:(open|read)_text is deprecated:DeprecationWarning",
    # A closed kafka-python consumer sometimes leaves a socket to the garbage collector.
    "ignore:unclosed <socket:ResourceWarning",
    # It also leaves those whose handshake has failed.
    "ignore:unclosed <ssl.SSLSocket:ResourceWarning",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests in this directory as live tests."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.live)
            for warning in CLIENT_WARNINGS:
                item.add_marker(pytest.mark.filterwarnings(warning))


@pytest.fixture(autouse=True, scope="module")
def client_garbage() -> Iterator[None]:
    """Collect the garbage of the clients while their warnings are still ignored."""
    yield
    gc.collect()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the last output of all running brokers to the report of a failed test."""
    report = yield
    if report.failed and HERE in item.path.parents:
        for process in BrokerProcess.running:
            report.sections.append((f"broker {process.bootstrap}", process.tail()))
    return report


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """The broker that most tests share: without initial rebalance delay, with short sessions."""
    bootstrap = os.environ.get("COTERIE_TEST_BOOTSTRAP")
    if bootstrap:
        first_answer(Address.parse(bootstrap))
        yield Broker(bootstrap, own=False, short_session_ms=KAFKA_MIN_SESSION_MS)
        return
    # Some tests write records of long ago, or empty a group without offsets. A check of the
    # retention comes now and then, and would delete them.
    settings = (
        FAST_GROUPS
        | FAST_CONSUMER_GROUPS
        | {
            "log.retention.ms": "-1",
            "offsets.retention.check.interval.ms": str(24 * 3600 * 1000),
        }
    )
    process = BrokerProcess(tmp_path_factory.mktemp("broker") / "data", settings)
    process.start()
    yield process
    process.stop()


@pytest.fixture
def start_broker(tmp_path: Path) -> Iterator[Callable[..., BrokerProcess]]:
    """A function that starts a broker for one test: start_broker({"group.max.size": "2"}).

    It is for tests that need other settings or stop the broker. They are skipped if the tests use a
    broker that is already running.
    """
    bootstrap = os.environ.get("COTERIE_TEST_BOOTSTRAP")
    if bootstrap:
        pytest.skip(f"needs a broker that it can configure and stop, which {bootstrap} is not")
    started: list[BrokerProcess] = []

    def start(config: dict[str, str] | None = None) -> BrokerProcess:
        process = BrokerProcess(tmp_path / f"data-{len(started)}", FAST_GROUPS | (config or {}))
        process.start()
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()


@pytest.fixture(params=libraries.NAMES)
def library(request: pytest.FixtureRequest) -> libraries.Library:
    """Each client library in turn."""
    return libraries.BY_NAME[request.param]


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A unique name for a topic or group, which begins with the name of the test."""
    test = request.node.originalname.removeprefix("test_")[:40].replace("_", "-")
    return f"{test}-{uuid.uuid4().hex[:8]}"


@pytest.fixture(scope="session")
def created_topics() -> Iterator[list[tuple[str, str]]]:
    """(bootstrap, topic) of the created topics, which are deleted from a running broker."""
    created: list[tuple[str, str]] = []
    yield created
    running = os.environ.get("COTERIE_TEST_BOOTSTRAP")
    topics = [topic for bootstrap, topic in created if bootstrap == running]
    if running and topics:
        results = AdminClient({"bootstrap.servers": running}).delete_topics(topics)
        for result in results.values():
            # The exception is ignored: a test may have deleted its topic itself.
            result.exception(ADMIN_LIMIT_S)


@pytest.fixture
def make_topic(
    broker: Broker, name: str, created_topics: list[tuple[str, str]]
) -> Callable[..., str]:
    """A function that creates a topic on the shared broker and returns its name."""

    def make(partitions: int = 1, config: dict[str, str] | None = None, suffix: str = "") -> str:
        create_topic(broker.bootstrap, name + suffix, partitions, config)
        created_topics.append((broker.bootstrap, name + suffix))
        return name + suffix

    return make


def create_topic(
    bootstrap: str, topic: str, partitions: int, config: dict[str, str] | None = None
) -> None:
    """Create a topic and wait until it is usable."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": QUIET_LOG_LEVEL})
    new_topic = NewTopic(topic, partitions, 1, config=config or {})
    admin.create_topics([new_topic])[topic].result(ADMIN_LIMIT_S)

    def is_usable() -> bool:
        found = admin.list_topics(topic, timeout=ADMIN_LIMIT_S).topics[topic]
        return found.error is None and len(found.partitions) == partitions

    # A KRaft broker responds before its own metadata has the topic.
    eventually(is_usable, f"topic {topic} in the metadata")


@pytest.fixture
def members(broker: Broker) -> Iterator[Members]:
    """Group members of the shared broker, which are ended with the test."""
    started = Members(broker.bootstrap)
    yield started
    started.close()


@pytest.fixture
def living_group(
    broker: Broker, make_topic: Callable[..., str]
) -> Iterator[tuple[str, libraries.Reader]]:
    """A group with one member that has committed offset 10 of both partitions of its topic.

    The value is the name of both topic and group, and the member. The group is Empty after the
    member is closed.
    """
    topic = make_topic(partitions=2)
    produce_rows(broker.bootstrap, topic, 2, 20)
    reading = libraries.Reading(group=topic, topic=topic)
    member = libraries.BY_NAME["confluent"].reader(broker.bootstrap, reading)
    try:
        member.read(20)
        for partition in range(2):
            member.commit(partition, 10)
        yield topic, member
    finally:
        member.close()
