"""The pytest plugin: the fixtures `kafka`, `kafka_module` and `kafka_session`, and a mark.

    def test_billing(kafka):
        kafka.topic("orders", partitions=3, records=["a", "b", "c"])
        run_service(kafka.bootstrap_servers)
        kafka.group("billing").wait_committed()

    @pytest.mark.kafka(config={"group.max.size": "2"}, topics={"orders": 3})
    def test_third_member_is_refused(kafka): ...

pytest loads this module in every run, so it imports the server at the first use of a fixture only.
"""

from collections.abc import Generator, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from coterie.testing import Broker

# The options of the mark that describe the broker of the fixture `kafka`; see `Broker`.
_BROKER_OPTIONS: Mapping[str, str] = {
    "config": "settings by Kafka's names",
    "topics": "topics with their numbers of partitions",
    "data_dir": "a directory for its data, instead of memory",
    "version": "the release of Kafka whose API versions it serves, such as 2.8",
    "features": "levels of features, such as transaction.version",
    "flush": "when it syncs: never, commit or interval:MS",
}
# The options of the mark that are about the test.
_TEST_OPTIONS: Mapping[str, str] = {
    "process": "whether its broker has a process of its own",
    "virtual_time": "whether the test, a coroutine, is in virtual time",
    "seed": "of everything that is left to chance in virtual time",
    "leaves": "patterns of the names that the test may leave in a shared broker",
}
# The end of what clients have sent; a group of three members sends some ten requests a second.
_SHOWN_REQUESTS = 20
_BROKERS = pytest.StashKey[dict[str, "Broker"]]()
_SHARED = "coterie-shared-brokers"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the setting."""
    parser.addini(
        "kafka_leaves",
        "Patterns of the names of topics and groups that tests may leave in a shared broker.",
        type="linelist",
        default=[],
    )


def pytest_configure(config: pytest.Config) -> None:
    """Declare the mark, and the fixtures of virtual time."""
    options = {**_BROKER_OPTIONS, **_TEST_OPTIONS}
    described = "; ".join(f"{name}: {text}" for name, text in options.items())
    config.addinivalue_line("markers", f"kafka({'=, '.join(options)}=): {described}.")
    from coterie.pytest_virtual_time import fixtures

    config.pluginmanager.register(fixtures(config), "coterie-virtual-time")


@pytest.fixture
def kafka(request: pytest.FixtureRequest) -> "Iterator[Broker]":
    """Coterie, a Kafka broker in memory, for this test only (see the mark `kafka`)."""
    options: dict[str, Any] = {}
    for mark in request.node.iter_markers("kafka"):
        # The closest comes first; what the module's says holds besides.
        options = {**mark.kwargs, **options}
    known = {*_BROKER_OPTIONS, *_TEST_OPTIONS}
    if unknown := sorted(options.keys() - known):
        text = f"@pytest.mark.kafka takes {', '.join(sorted(known))}, not {', '.join(unknown)}"
        raise pytest.UsageError(text)
    described = {name: options[name] for name in _BROKER_OPTIONS if name in options}
    if options.get("virtual_time", False):
        if options.get("process", False):
            text = "@pytest.mark.kafka: a broker in a process of its own has no virtual time"
            raise pytest.UsageError(text)
        from coterie.pytest_virtual_time import broker_in_virtual_time

        broker = broker_in_virtual_time(request, described, options.get("seed", 0))
        yield from _shown(request, "kafka", broker)
    else:
        from coterie import testing

        is_process = options.get("process", False)
        made = testing.ProcessBroker if is_process else testing.Broker
        with made(**described) as broker:
            yield from _shown(request, "kafka", broker)


@pytest.fixture(scope="module")
def kafka_module(request: pytest.FixtureRequest) -> "Iterator[Broker]":
    """Coterie, a Kafka broker in memory, shared by the tests of a module."""
    yield from _shared(request, "kafka_module")


@pytest.fixture(scope="session")
def kafka_session(request: pytest.FixtureRequest) -> "Iterator[Broker]":
    """Coterie, a Kafka broker in memory, shared by all tests; one a worker with xdist."""
    yield from _shared(request, "kafka_session")


def _shared(request: pytest.FixtureRequest, name: str) -> "Iterator[Broker]":
    from coterie.pytest_shared import SharedBrokers
    from coterie.testing import Broker

    plugins = request.config.pluginmanager
    shared = plugins.get_plugin(_SHARED)
    if shared is None:
        shared = SharedBrokers()
        plugins.register(shared, _SHARED)
    with Broker() as broker:
        shared.add(name, broker)
        yield from _shown(request, name, broker)
        shared.remove(name)


def _shown(request: pytest.FixtureRequest, name: str, broker: "Broker") -> "Iterator[Broker]":
    """Show a broker in the reports of failures while a fixture yields it."""
    brokers = request.config.stash.setdefault(_BROKERS, {})
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
    from coterie.testing import BrokerNotStarted, WrongUse

    try:
        parts = []
        for group_id in broker.groups:
            group = broker.group(group_id)
            parts.append(group.stuck())
            parts += [f"  {line}" for line in group.history_lines()]
        return "\n".join(parts) or "no groups"
    except (BrokerNotStarted, WrongUse) as error:
        return str(error)


def _requests(broker: "Broker") -> str:
    return "\n".join(str(each) for each in [*broker.requests][-_SHOWN_REQUESTS:]) or "no requests"
