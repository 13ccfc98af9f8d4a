"""Share groups with librdkafka's ShareConsumer: release, reject, locks, and a killed broker."""

from collections.abc import Callable

import pytest
from confluent_kafka import AcknowledgeType

from tests.live.broker_process import BrokerProcess
from tests.live.conftest import create_topic
from tests.live.consumer_groups import ConsumerGroups
from tests.live.deadlines import eventually
from tests.live.records import produce
from tests.live.share_readers import SETTINGS, accept, reader


@pytest.fixture
def shared(start_broker: Callable[..., BrokerProcess], name: str) -> BrokerProcess:
    """A broker with a topic, whose name is that of a share group that reads it from its start."""
    broker = start_broker(SETTINGS)
    create_topic(broker.bootstrap, name, 1)
    ConsumerGroups(broker, name).alter({"share.auto.offset.reset": "earliest"})
    return broker


def test_released_records_come_again_and_rejected_ones_do_not(
    shared: BrokerProcess, name: str
) -> None:
    """Each record is decided by itself; what was decided survives the death of the broker."""
    produce(shared.bootstrap, name, [(None, b"good"), (None, b"again"), (None, b"bad")])

    def decide(value: bytes | None, count: int | None) -> AcknowledgeType:
        if value == b"bad":
            return AcknowledgeType.REJECT
        if value == b"again" and count == 1:
            return AcknowledgeType.RELEASE
        return AcknowledgeType.ACCEPT

    with reader(shared.bootstrap, name) as one:

        def has_all() -> bool:
            one.work(decide)
            return (b"again", 2) in one.given

        eventually(has_all, "the released record comes again", evidence=lambda: one.given)
    assert sorted(one.given, key=str) == [(b"again", 1), (b"again", 2), (b"bad", 1), (b"good", 1)]
    shared.kill()
    shared.start()
    produce(shared.bootstrap, name, [(None, b"after")])
    with reader(shared.bootstrap, name) as two:

        def has_next() -> bool:
            two.work(accept)
            return bool(two.given)

        eventually(has_next, "the next record is delivered", evidence=lambda: two.given)
    assert two.given == [(b"after", 1)]


def test_records_of_a_silent_member_go_to_another(shared: BrokerProcess, name: str) -> None:
    """A member that does not acknowledge holds records until their locks end."""
    produce(shared.bootstrap, name, [(None, b"one")])
    with reader(shared.bootstrap, name) as silent, reader(shared.bootstrap, name) as other:
        eventually(silent.poll, "the first member is given the record")

        def has_record() -> bool:
            other.work(accept)
            return bool(other.given)

        eventually(has_record, "the lock ends", evidence=lambda: other.given)
        assert silent.given == [(b"one", 1)]
        assert other.given == [(b"one", 2)]
