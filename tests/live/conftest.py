"""Fixtures of the live tests: a broker, names nobody else uses, members that are put away."""

import gc
import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.live import libraries
from tests.live.broker_process import (
    FAST_GROUPS,
    KAFKA_MIN_SESSION_MS,
    Broker,
    BrokerProcess,
    ask_api_versions,
)
from tests.live.deadlines import eventually
from tests.live.groups import QUIET, produce_rows
from tests.live.members import Members

HERE = Path(__file__).parent
ADMIN_LIMIT_S = 30.0


# What the clients leave behind; each line says whose fault it is.
CLIENT_WARNINGS = (
    # kafka-python 3.0 loads schemas with importlib.resources.read_text, also long after import.
    "ignore:(open|read)_text is deprecated:DeprecationWarning",
    # A closed kafka-python consumer now and then leaves a socket to the garbage collector.
    "ignore:unclosed <socket:ResourceWarning",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this directory is a live test."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.live)
            for warning in CLIENT_WARNINGS:
                item.add_marker(pytest.mark.filterwarnings(warning))


@pytest.fixture(autouse=True, scope="module")
def client_garbage() -> Iterator[None]:
    """Collects what clients left behind here, where its warnings are known for what they are."""
    yield
    gc.collect()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """A failed test shows what the servers that still run have written last."""
    report = yield
    if report.failed and HERE in item.path.parents:
        for process in BrokerProcess.running:
            report.sections.append((f"server {process.bootstrap}", process.tail()))
    return report


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """The broker most tests share: quick groups, short sessions allowed, nothing else special."""
    bootstrap = os.environ.get("COTERIE_TEST_BOOTSTRAP")
    if bootstrap:
        ask_api_versions(bootstrap)
        yield Broker(bootstrap, own=False, short_session_ms=KAFKA_MIN_SESSION_MS)
        return
    process = BrokerProcess(tmp_path_factory.mktemp("broker") / "data", FAST_GROUPS)
    process.start()
    yield process
    process.stop()


@pytest.fixture
def start_broker(tmp_path: Path) -> Iterator[Callable[..., BrokerProcess]]:
    """Start a server of one's own: start_broker({"group.max.size": "2"}).

    For tests that need other settings, or that stop the server. They are skipped when the tests
    run against a broker that somebody else started.
    """
    bootstrap = os.environ.get("COTERIE_TEST_BOOTSTRAP")
    if bootstrap:
        pytest.skip(f"needs a server it may configure and stop; {bootstrap} is not ours")
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
    """A name for a topic or group that tells which test it belongs to and that no other has."""
    test = request.node.originalname.removeprefix("test_")[:40].replace("_", "-")
    return f"{test}-{uuid.uuid4().hex[:8]}"


@pytest.fixture(scope="session")
def topics_made() -> Iterator[list[tuple[str, str]]]:
    """(bootstrap, topic) of what the tests created; removed at the end from a lasting broker."""
    made: list[tuple[str, str]] = []
    yield made
    lasting = os.environ.get("COTERIE_TEST_BOOTSTRAP")
    doomed = [topic for bootstrap, topic in made if bootstrap == lasting]
    if lasting and doomed:
        answers = AdminClient({"bootstrap.servers": lasting}).delete_topics(doomed)
        for answer in answers.values():
            # A test may have deleted its topic itself.
            answer.exception(ADMIN_LIMIT_S)


@pytest.fixture
def make_topic(broker: Broker, name: str, topics_made: list[tuple[str, str]]) -> Callable[..., str]:
    """Create a topic on the shared broker: make_topic(partitions=3, config={...}) -> its name."""

    def make(partitions: int = 1, config: dict[str, str] | None = None, suffix: str = "") -> str:
        create_topic(broker.bootstrap, name + suffix, partitions, config)
        topics_made.append((broker.bootstrap, name + suffix))
        return name + suffix

    return make


def create_topic(
    bootstrap: str, topic: str, partitions: int, config: dict[str, str] | None = None
) -> None:
    """Create a topic and wait until it can be used."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": QUIET})
    order = NewTopic(topic, partitions, 1, config=config or {})
    admin.create_topics([order])[topic].result(ADMIN_LIMIT_S)

    def usable() -> bool:
        found = admin.list_topics(topic, timeout=ADMIN_LIMIT_S).topics[topic]
        return found.error is None and len(found.partitions) == partitions

    # A KRaft broker answers before its own metadata knows the topic.
    eventually(usable, f"topic {topic} in the metadata")


@pytest.fixture
def members(broker: Broker) -> Iterator[Members]:
    """Starts group members as processes; they end with the test."""
    started = Members(broker.bootstrap)
    yield started
    started.put_away()


@pytest.fixture
def living_group(
    broker: Broker, make_topic: Callable[..., str]
) -> Iterator[tuple[str, libraries.Reader]]:
    """A group with one member that has read and committed offset 10 of each of two partitions.

    Gives (name of topic and group, the member); closing the member leaves the group Empty.
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
