"""What a test leaves in a broker that it shares with others, which is an error of that test.

Topics, groups and faults that a test has made are compared with those that were there before it.
Fixtures of a wider scope keep theirs. What is named by `kafka.unique` is deleted after the test.
"""

from collections.abc import Generator, Iterable
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import pytest

from coterie.testing.waiting import take_unawaited

if TYPE_CHECKING:
    from coterie.testing import Broker

# What something is, and its name or representation.
_Thing = tuple[str, str]


class SharedBrokers:
    """A plugin that checks the shared brokers after each test; registered with the first of them.

    Attributes:
        brokers: the shared brokers, by the names of their fixtures.
    """

    def __init__(self) -> None:
        """Start without brokers."""
        self.brokers: dict[str, Broker] = {}
        # What was there before, or was reported already.
        self._known: dict[str, set[_Thing]] = {}
        # The test whose fixtures are being torn down.
        self._ending: pytest.Item | None = None

    def add(self, name: str, broker: "Broker") -> None:
        """Check a broker from now on."""
        self.brokers[name] = broker
        self._known[name] = set(_things(broker))

    def remove(self, name: str) -> None:
        """Check a broker for the last time, because its fixture ends with the present test.

        Raises:
            pytest.fail.Exception: the test has left something.
        """
        try:
            if self._ending is not None:
                self._check(name, self._ending)
        finally:
            del self.brokers[name]

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[Any]
    ) -> Generator[None, object, object]:
        """Let fixtures for several tests keep what they make."""
        if fixturedef.scope == "function":
            return (yield)
        before = {name: set(_things(broker)) for name, broker in self.brokers.items()}
        result = yield
        for name, earlier in before.items():
            if name in self.brokers:
                self._known[name] |= set(_things(self.brokers[name])) - earlier
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, None, None]:
        """Check the shared brokers that a test has used, after its fixtures."""
        self._ending = item
        try:
            yield
        finally:
            self._ending = None
        for name in list(self.brokers):
            self._check(name, item)

    def _check(self, name: str, item: pytest.Item) -> None:
        if name not in getattr(item, "fixturenames", ()):
            return
        broker, known = self.brokers[name], self._known[name]
        waits = take_unawaited(broker.thread.unawaited)
        broker.delete_unique()
        found = _things(broker)
        allowed = _patterns(item)
        left = {
            thing: text
            for thing, text in found.items()
            if thing not in known and not any(fnmatchcase(thing[1], each) for each in allowed)
        }
        # Each is the error of one test.
        self._known[name] = set(found)
        if waits:
            pytest.fail(f"the test has left {'; '.join(waits)}", pytrace=False)
        if left:
            pytest.fail(
                f"the test has left in the shared broker {name}: {'; '.join(left.values())}\n"
                "Delete it, name it by kafka.unique(), or allow it by"
                f" @pytest.mark.kafka(leaves=[...]) or the setting kafka_leaves.",
                pytrace=False,
            )


def _things(broker: "Broker") -> dict[_Thing, str]:
    """Return what is in a broker, with descriptions."""
    found: dict[_Thing, str] = {("topic", name): f"topic '{name}'" for name in broker.topics}
    for group_id in broker.groups:
        group = broker.group(group_id)
        members = ", ".join(each.name for each in group.members)
        about = f"with members {members}" if members else "without members"
        found["group", group_id] = f"group '{group_id}' {about}"
    for fault in broker.faults:
        found["fault", repr(fault.action) + str(id(fault))] = f"the fault {fault!r}"
    return found


def _patterns(item: pytest.Item) -> Iterable[str]:
    """Return the patterns of the names that a test may leave."""
    patterns = list(item.config.getini("kafka_leaves"))
    for mark in item.iter_markers("kafka"):
        leaves = mark.kwargs.get("leaves", ())
        patterns += [leaves] if isinstance(leaves, str) else leaves
    return patterns
