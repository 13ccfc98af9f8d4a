"""The pytest plugin: the fixtures `kafka`, `kafka_module` and `kafka_session`, and a mark.

    def test_billing(kafka):
        kafka.topic("orders", partitions=3, records=["a", "b", "c"])
        run_service(kafka.bootstrap_servers)
        kafka.group("billing").wait_committed()

    @pytest.mark.kafka(config={"group.max.size": "2"}, topics={"orders": 3})
    def test_third_member_is_refused(kafka): ...

pytest loads this module in every run, so it imports the server at the first use of a fixture only.
"""

import sys
from collections.abc import Generator, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import pytest

if TYPE_CHECKING:
    from coterie.testing import Broker, Cluster
    from coterie.testing.shown import ShownBroker

# The options of the mark that describe the broker of the fixture `kafka`; see `Broker`, `Cluster`.
_BROKER_OPTIONS: Mapping[str, str] = {
    "brokers": "how many brokers; several are a Cluster",
    "config": "settings by Kafka's names",
    "topics": "topics with their numbers of partitions",
    "data_dir": "a directory for its data, instead of memory",
    "version": "the release of Kafka whose API versions it serves, such as 2.8",
    "features": "levels of features, such as transaction.version",
    "security": "SSL, SASL_PLAINTEXT or SASL_SSL: certificates of its own, logins; or a Security",
    "users": "who may log in: names, or passwords by name",
    "acls": "access rules; clients may do only what they allow",
    "flush": "when it syncs: never, commit or interval:MS",
}
# The options of the mark that are about the test.
_TEST_OPTIONS: Mapping[str, str] = {
    "process": "whether its broker has a process of its own",
    "virtual_time": "whether the test, a coroutine, is in virtual time",
    "seed": "of everything that is left to chance in virtual time",
    "leaves": "patterns of the names that the test may leave in a shared broker",
}
# A broker, or several.
Shown = TypeVar("Shown", "Broker", "Cluster", "Broker | Cluster")
_BROKERS = pytest.StashKey[dict[str, "ShownBroker"]]()
_SHARED = "coterie-shared-brokers"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the settings."""
    parser.addini(
        "kafka_leaves",
        "Patterns of the names of topics and groups that tests may leave in a shared broker.",
        type="linelist",
        default=[],
    )
    parser.addini(
        "kafka_pages",
        "Directory for the report pages of the groups of failed tests, or off for none; by default"
        " one of pytest's temporary directories.",
        default="",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Declare the mark, and the fixtures of virtual time."""
    options = {**_BROKER_OPTIONS, **_TEST_OPTIONS}
    described = "; ".join(f"{name}: {text}" for name, text in options.items())
    config.addinivalue_line("markers", f"kafka({'=, '.join(options)}=): {described}.")
    from coterie.pytest_virtual_time import fixtures

    config.pluginmanager.register(fixtures(config), "coterie-virtual-time")


@pytest.fixture
def kafka(request: pytest.FixtureRequest) -> "Iterator[Broker | Cluster]":
    """Coterie, a Kafka broker in memory, for this test only (see the mark `kafka`).

    With `@pytest.mark.kafka(brokers=3)` it is a cluster.
    """
    options = _options(request.node)
    described = {name: options[name] for name in _BROKER_OPTIONS if name in options}
    if options.get("virtual_time", False):
        if options.get("process", False):
            _refuse("@pytest.mark.kafka: a broker in a process of its own has no virtual time")
        from coterie.pytest_virtual_time import broker_in_virtual_time

        broker = broker_in_virtual_time(request, described, options.get("seed", 0))
        yield from _shown(request, "kafka", broker)
    else:
        from coterie.pytest_report import explained
        from coterie.testing.making import described_brokers

        process = options.get("process", False)
        with explained(), described_brokers(process=process, **described) as made:
            yield from _shown(request, "kafka", made)


def _options(item: pytest.Item) -> dict[str, Any]:
    """Return what the marks of a test say; the closest comes first, and the others hold besides.

    Raises:
        pytest.fail.Exception: they say what no mark can.
    """
    options: dict[str, Any] = {}
    for mark in item.iter_markers("kafka"):
        if mark.args:
            given = ", ".join(map(repr, mark.args))
            _refuse(f"@pytest.mark.kafka takes options by name, as topics={{'t': 1}}, not {given}")
        options = {**mark.kwargs, **options}
    known = {*_BROKER_OPTIONS, *_TEST_OPTIONS}
    if unknown := sorted(options.keys() - known):
        _refuse(f"@pytest.mark.kafka takes {', '.join(sorted(known))}, not {', '.join(unknown)}")
    return options


def _check_marks(item: pytest.Item) -> None:
    """Check that no mark describes a broker that its test does not have.

    Raises:
        pytest.fail.Exception: one does.
    """
    used = getattr(item, "fixturenames", ())
    shared = [name for name in ("kafka_module", "kafka_session") if name in used]
    unused = [each for each in _options(item) if each != "leaves"]
    if shared and unused and "kafka" not in used:
        _refuse(
            f"@pytest.mark.kafka({', '.join(f'{each}=...' for each in unused)}) describes the"
            f" broker of the fixture `kafka`, and this test uses `{shared[0]}`, which it shares"
            " with other tests: use `kafka`, or make topics with kafka.topic(...)"
        )


def _refuse(text: str) -> NoReturn:
    pytest.fail(text, pytrace=False)


@pytest.fixture(scope="module")
def kafka_module(request: pytest.FixtureRequest) -> "Iterator[Broker]":
    """Coterie, a Kafka broker in memory, shared by the tests of a module."""
    yield from _shared(request, "kafka_module")


@pytest.fixture(scope="session")
def kafka_session(request: pytest.FixtureRequest) -> "Iterator[Broker]":
    """Coterie, a Kafka broker in memory, shared by all tests; one a worker with xdist."""
    yield from _shared(request, "kafka_session")


def _shared(request: pytest.FixtureRequest, name: str) -> "Iterator[Broker]":
    from coterie.pytest_report import explained
    from coterie.pytest_shared import SharedBrokers
    from coterie.testing import Broker

    plugins = request.config.pluginmanager
    shared = plugins.get_plugin(_SHARED)
    if shared is None:
        shared = SharedBrokers()
        plugins.register(shared, _SHARED)
    with explained(), Broker() as broker:
        shared.add(name, broker)
        yield from _shown(request, name, broker)
        shared.remove(name)


def _shown(request: pytest.FixtureRequest, name: str, broker: Shown) -> Iterator[Shown]:
    """Show a broker, or several, in the reports of failures while a fixture yields it."""
    from coterie.testing.errors import observers
    from coterie.testing.shown import ShownBroker

    brokers = request.config.stash.setdefault(_BROKERS, {})
    shown = brokers[name] = ShownBroker(broker)
    observers.append(shown.failed)
    try:
        yield broker
    finally:
        observers.remove(shown.failed)
        del brokers[name]


def _brokers_of(item: pytest.Item) -> "dict[str, ShownBroker]":
    """Return the brokers of a test, by the names of their fixtures."""
    used = getattr(item, "fixturenames", ())
    shown = item.config.stash.get(_BROKERS, {})
    return {name: broker for name, broker in shown.items() if name in used}


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Check the marks of a test, and begin it for the shared brokers that it uses."""
    _check_marks(item)
    for broker in _brokers_of(item).values():
        broker.begin()


def pytest_assertrepr_compare(config: pytest.Config) -> None:
    """Look at the brokers: a comparison in an `assert` has failed."""
    brokers = config.stash.get(_BROKERS, {})
    if brokers:
        from coterie.pytest_report import compared

        compared(brokers.values())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the groups and the last requests of the test's brokers to the report of a failure."""
    report = yield
    if report.failed and call.excinfo is not None:
        for name, broker in _brokers_of(item).items():
            report.sections += broker.sections(name, call.excinfo.value)
            if call.when == "call":
                from coterie.pytest_report import kept_page

                report.sections += kept_page(item, name, broker)
    return report


@pytest.hookimpl(specname="pytest_runtest_makereport")
def pytest_explain_failure(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Explain the error of a failure, before pytest makes the report of it.

    pytest looks for names with this beginning. It is no wrapper: the error of a test of `unittest`
    is there only when the wrappers have begun.
    """
    if call.excinfo is not None and "coterie.testing" in sys.modules:
        from coterie.pytest_report import explain

        explain(call.excinfo, whole_traceback=item.config.getoption("fulltrace"))
