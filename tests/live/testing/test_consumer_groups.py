"""Consumer groups (KIP-848) seen from a test: settings of clients, waits, views."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer

from coterie.testing import Broker, WrongUse

pytestmark = pytest.mark.live


@contextmanager
def consuming(broker: Broker, client_id: str, topic: str) -> Iterator[None]:
    """Poll with a consumer of the new protocol until the block ends."""
    config = broker.client_config(
        "confluent-kafka", group_id="g", protocol="consumer", client_id=client_id
    )
    ended = threading.Event()

    def poll() -> None:
        consumer = Consumer(config)
        consumer.subscribe([topic])
        while not ended.is_set():
            consumer.poll(0.05)
        consumer.close()

    thread = threading.Thread(target=poll)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def test_a_test_waits_for_consumer_groups_as_for_others() -> None:
    with Broker(topics={"orders": 4}) as broker:
        group = broker.group("g")
        with consuming(broker, "first", "orders"):
            group.wait_assigned("orders")
            with consuming(broker, "second", "orders"):
                group.wait_stable(members=2)
                group.wait_assigned("orders")
                owners = {each.client_id for each in group.assignment.values()}
                assert owners == {"first", "second"}
                assert {len(each.assignment) for each in group.members} == {2}
            group.wait_stable(members=1)
        group.wait_empty()
        assert group.generation > 3
        causes = [each.trigger.cause for each in group.history]
        assert causes[0] == "join"
        assert causes[-1] == "leave"
        assert any(each.moved == 2 for each in group.history)
        assert all(line.startswith("epoch ") for line in group.history_lines())


def test_only_libraries_that_speak_the_protocol_get_settings_for_it() -> None:
    with Broker() as broker:
        with pytest.raises(WrongUse, match="confluent-kafka does"):
            broker.client_config("aiokafka", group_id="g", protocol="consumer")
        with pytest.raises(WrongUse, match="classic, consumer, share or streams"):
            broker.client_config("confluent-kafka", group_id="g", protocol="new")
