"""Consumer groups (KIP-848) for the live tests: members of both protocols in one group.

A running broker (COTERIE_TEST_BOOTSTRAP) needs `group.consumer.min.session.timeout.ms` of at most
6000, and shorter intervals than the defaults so that the tests do not take minutes.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import kafka.admin
import pytest

from tests.live.broker_process import Broker
from tests.live.conftest import create_topic
from tests.live.members import Member, Members


class ConsumerGroups:
    """A broker of one test, with members of both protocols.

    Attributes:
        broker: the broker.
        topic: the name of the topic, which is also that of the group.
        members: starts members.
    """

    def __init__(self, broker: Broker, topic: str) -> None:
        self.broker = broker
        self.topic = topic
        self.members = Members(broker.bootstrap)

    def create_topic(self, partitions: int, suffix: str = "") -> str:
        """Create the topic, or one whose name begins with its name; return its name."""
        create_topic(self.broker.bootstrap, self.topic + suffix, partitions)
        return self.topic + suffix

    def consumer(self, **options: object) -> Member:
        """Start a member that speaks the consumer protocol."""
        return self._start("confluent", group_protocol="consumer", **options)

    def classic(self, library: str, **options: object) -> Member:
        """Start a member that speaks the classic protocol."""
        return self._start(library, **options)

    def shorten_session(self) -> None:
        """Shorten the session timeout, which is a setting of the group itself."""
        self.alter({"consumer.session.timeout.ms": str(self.broker.short_session_ms)})

    def alter(self, settings: dict[str, str]) -> None:
        """Change settings of the group."""
        with _admin(self.broker) as admin:
            admin.alter_configs([self._resource(settings)])

    def described(self) -> dict[str, Any]:
        """Return the settings of the group that are not the defaults of Kafka."""
        with _admin(self.broker) as admin:
            found: dict[str, Any] = admin.describe_configs([self._resource()])["group"][self.topic]
        return found

    def _resource(self, settings: dict[str, str] | None = None) -> kafka.admin.ConfigResource:
        kind = kafka.admin.ConfigResourceType.GROUP
        return kafka.admin.ConfigResource(kind, self.topic, settings)

    def _start(self, library: str, **options: object) -> Member:
        # A topic that begins with ^ is a pattern for librdkafka.
        options = {"topic": options.pop("pattern", self.topic), **options}
        return self.members.start(library, group=self.topic, **options)


@contextmanager
def _admin(broker: Broker) -> Iterator[kafka.admin.KafkaAdminClient]:
    admin = kafka.admin.KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    try:
        yield admin
    finally:
        admin.close()


@pytest.fixture
def groups(broker: Broker, name: str) -> Iterator[ConsumerGroups]:
    """The members of one test, which are ended with it, and a broker that many tests share."""
    groups = ConsumerGroups(broker, name)
    yield groups
    groups.members.close()
