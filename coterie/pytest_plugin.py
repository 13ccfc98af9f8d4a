"""The pytest plugin: the fixtures `kafka`, `kafka_module` and `kafka_session`, and a mark.

    def test_billing(kafka):
        kafka.topic("orders", partitions=3, records=["a", "b", "c"])
        run_service(kafka.bootstrap_servers)
        kafka.group("billing").wait_committed()

    @pytest.mark.kafka(config={"group.max.size": "2"}, topics={"orders": 3})
    def test_third_member_is_refused(kafka): ...

pytest loads this module in every run, so it imports the server at the first use of a fixture only.
"""

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from coterie.testing import Broker

# The end of what clients have sent; a group of three members sends some ten requests a second.
_SHOWN_REQUESTS = 20
_BROKERS = pytest.StashKey[dict[str, "Broker"]]()


def pytest_configure(config: pytest.Config) -> None:
    """Declare the mark."""
    config.addinivalue_line(
        "markers",
        "kafka(config=None, topics=None, data_dir=None): settings by Kafka's names, topics with"
        " their numbers of partitions, and a directory for the broker of the fixture `kafka`.",
    )


@pytest.fixture
def kafka(request: pytest.FixtureRequest) -> "Iterator[Broker]":
    """Coterie, a Kafka broker in memory, for this test only (see the mark `kafka`)."""
    mark = request.node.get_closest_marker("kafka")
    yield from _running(request, "kafka", {} if mark is None else mark.kwargs)


@pytest.fixture(scope="module")
def kafka_module(request: pytest.FixtureRequest) -> "Iterator[Broker]":
    """Coterie, a Kafka broker in memory, shared by the tests of a module."""
    yield from _running(request, "kafka_module", {})


@pytest.fixture(scope="session")
def kafka_session(request: pytest.FixtureRequest) -> "Iterator[Broker]":
    """Coterie, a Kafka broker in memory, shared by all tests; one a worker with xdist."""
    yield from _running(request, "kafka_session", {})


def _running(
    request: pytest.FixtureRequest, name: str, options: dict[str, Any]
) -> "Iterator[Broker]":
    from coterie.testing import Broker

    try:
        broker = Broker(**options)
    except TypeError as error:
        text = f"@pytest.mark.kafka takes config, topics and data_dir: {error}"
        raise pytest.UsageError(text) from None
    brokers = request.config.stash.setdefault(_BROKERS, {})
    with broker:
        brokers[name] = broker
        try:
            yield broker
        finally:
            del brokers[name]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the groups and the last requests of the test's brokers to the report of a failure."""
    report = yield
    if report.failed and call.when == "call":
        used = getattr(item, "fixturenames", ())
        for name, broker in item.config.stash.get(_BROKERS, {}).items():
            if name in used:
                report.sections.append((f"groups of {name}", _groups(broker)))
                report.sections.append((f"last requests to {name}", _requests(broker)))
    return report


def _groups(broker: "Broker") -> str:
    """Describe every group and its rebalances."""
    from coterie.testing import BrokerNotStarted

    try:
        parts = []
        for group_id in broker.groups:
            group = broker.group(group_id)
            parts.append(group.stuck())
            parts += [f"  {line}" for line in group.history_lines()]
        return "\n".join(parts) or "no groups"
    except BrokerNotStarted as error:
        return str(error)


def _requests(broker: "Broker") -> str:
    return "\n".join(str(each) for each in [*broker.requests][-_SHOWN_REQUESTS:]) or "no requests"
