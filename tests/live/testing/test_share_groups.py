"""Share groups (KIP-932) seen from a test: records in flight, locks, deliveries, faults."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import AcknowledgeType, Message, ShareConsumer

from coterie.testing import AnswerError, Broker, NoLeader, ProcessBroker, WaitTimedOut, WrongUse
from coterie.testing.shown import ShownBroker
from tests.live.deadlines import eventually
from tests.unit.cli.command import rows_of, run

pytestmark = pytest.mark.live

GROUP = "billing"
ACCEPT, RELEASE, REJECT = (
    AcknowledgeType.ACCEPT,
    AcknowledgeType.RELEASE,
    AcknowledgeType.REJECT,
)


class Worker:
    """A ShareConsumer that acknowledges explicitly."""

    def __init__(self, broker: Broker, client_id: str) -> None:
        config = broker.client_config(
            "confluent-kafka",
            group_id=GROUP,
            protocol="share",
            share_acknowledgement_mode="explicit",
            client_id=client_id,
        )
        self.consumer = ShareConsumer(config)
        self.consumer.subscribe(["orders"])

    def take(self) -> list[Message]:
        """Poll until there are records; they are acquired then."""
        found: list[Message] = []

        def polled() -> bool:
            found.extend(self.consumer.poll(0.1))
            return bool(found)

        eventually(polled, "the worker has records")
        return found

    def decide(self, messages: list[Message], decision: AcknowledgeType) -> None:
        for message in messages:
            self.consumer.acknowledge(message, decision)
        self.consumer.commit_sync()


@contextmanager
def working(broker: Broker, client_id: str = "one") -> Iterator[Worker]:
    worker = Worker(broker, client_id)
    try:
        yield worker
    finally:
        worker.consumer.close()


def test_a_lock_that_ends_is_seen_and_its_record_comes_again() -> None:
    with Broker(topics={"orders": 2}) as broker:
        broker.produce("orders", "tea", "milk")
        group = broker.group(GROUP)
        with working(broker) as worker:
            taken = worker.take()
            group.wait_acquired(2)
            (lock,) = group.share_partitions["orders", 0].locks
            assert (lock.first_offset, lock.last_offset, lock.delivery_count) == (0, 1, 1)
            assert lock.member_id == group.members[0].member_id
            assert lock.lock_ms is not None
            assert 0 < lock.lock_ms <= 30_000
            assert "offsets 0-1: ACQUIRED by one (" in group.stuck()
            assert "delivery 1 of at most 5, locked for " in group.stuck()
            assert group.lag == {("orders", 0): 2, ("orders", 1): 0}
            broker.advance(31)
            assert not group.share_partitions["orders", 0].locks
            worker.decide(taken, ACCEPT)  # too late
            again = worker.take()
            assert [each.delivery_count() for each in again] == [2, 2]
            worker.decide(again, ACCEPT)
            group.wait_acknowledged()
        assert [str(each) for each in group.deliveries] == [
            "orders-0 offsets 0-1: AVAILABLE after delivery 1",
            "orders-0 offsets 0-1: ACKNOWLEDGED after delivery 2",
        ]
        # The leader has forgotten what was never written, with the last session.
        assert group.lag == {("orders", 0): 0}
        assert group.share_partitions["orders", 0].records == ()
        assert [each.trigger.cause for each in group.history][-1] == "leave"


def test_a_rejected_record_and_one_that_is_delivered_too_often_are_archived() -> None:
    with Broker(topics={"orders": 1}) as broker:
        group = broker.group(GROUP)
        group.configure({"share.delivery.count.limit": "2"})
        with working(broker) as worker:
            broker.produce("orders", "rejected")
            worker.decide(worker.take(), REJECT)
            group.wait_archived({("orders", 0): 0})
            broker.produce("orders", "poison")
            worker.decide(worker.take(), RELEASE)
            with pytest.raises(WaitTimedOut, match=r"archived \{\('orders', 0\): 1\}: not so"):
                group.wait_archived({("orders", 0): 1}, timeout_s=0)
            worker.decide(worker.take(), RELEASE)
            group.wait_archived({("orders", 0): 1})
        assert [str(each) for each in group.deliveries] == [
            "orders-0 offset 0: ARCHIVED after delivery 1",
            "orders-0 offset 1: AVAILABLE after delivery 1",
            "orders-0 offset 1: ARCHIVED after delivery 2",
        ]
        address = ("--bootstrap-server", broker.bootstrap_servers)
        shown = run(None, "groups", "deliveries", GROUP, "--archived", "--json", *address)
        assert [
            (each["topic"], each["partition"], each["first_offset"], each["delivery_count"])
            for each in rows_of(shown)
        ] == [("orders", 0, 0, 1), ("orders", 0, 1, 2)]
        table = run(None, "groups", "deliveries", GROUP, "--limit", "1", *address)
        assert table.output.split()[-2:] == ["ARCHIVED", "2"]
        missing = run(None, "groups", "deliveries", "none", *address)
        assert "Group 'none' does not exist" in missing.stderr


def test_waits_show_the_locks_and_the_report_of_a_failure_too() -> None:
    with Broker(topics={"orders": 1}) as broker:
        shown = ShownBroker(broker)
        broker.produce("orders", "tea")
        with working(broker) as worker:
            worker.take()
            with pytest.raises(WaitTimedOut) as failed:
                broker.group(GROUP).wait_acknowledged(timeout_s=0)
            assert "has acknowledged everything: not so within 0 s" in str(failed.value)
            assert "offset 0: ACQUIRED by one (" in str(failed.value)
            with pytest.raises(WrongUse, match="can't be removed"):
                broker.group(GROUP).expel("one")
            (_, groups), (_, requests) = shown.sections("kafka", failed.value)
        assert "offset 0: ACQUIRED by one (" in groups
        assert "ShareFetch v1" in requests


def test_acknowledgements_that_fail_do_not_end_the_session() -> None:
    with Broker(topics={"orders": 1}) as broker:
        broker.produce("orders", "tea")
        with working(broker) as worker:
            taken = worker.take()
            fault = AnswerError("INVALID_RECORD_STATE")
            with broker.fault(fault, api="ShareAcknowledge", topic="orders", times=1) as refused:
                worker.decide(taken, ACCEPT)
                refused.must_have_hit(1)
            broker.advance(31)
            worker.decide(worker.take(), ACCEPT)
            broker.group(GROUP).wait_acknowledged()
        epochs = [each.share_session_epoch for each in broker.requests.of("ShareFetch")]
        assert epochs.count(0) == 1


def test_a_leader_that_is_missing_refuses_share_fetches_of_its_session() -> None:
    with Broker(topics={"orders": 1}) as broker, working(broker) as worker:
        broker.produce("orders", "tea")
        worker.decide(worker.take(), ACCEPT)
        with broker.fault(NoLeader(), topic="orders") as fault:
            broker.produce("orders", "milk")
            worker.consumer.poll(0.2)
            eventually(lambda: fault.hits, "a request met the fault")
        assert [each.value() for each in worker.take()] == [b"milk"]


def test_the_control_port_has_locks_waits_deliveries_and_settings() -> None:
    with ProcessBroker(topics={"orders": 1}) as broker, working(broker) as worker:
        broker.produce("orders", "tea")
        taken = worker.take()
        group = broker.group(GROUP)
        group.wait_acquired()
        assert group.settings == {"share.auto.offset.reset": "earliest"}
        assert group.share_partitions["orders", 0].locks[0].lock_ms
        worker.decide(taken, ACCEPT)
        group.wait_acknowledged({("orders", 0): 1})
        assert [each.became for each in group.deliveries] == ["ACKNOWLEDGED"]
        with pytest.raises(WrongUse, match=r"Unknown group config name: share\.nix"):
            group.configure({"share.nix": "1"})


def test_only_a_share_consumer_gets_settings_for_it() -> None:
    with Broker() as broker:
        with pytest.raises(WrongUse, match="KIP-932"):
            broker.client_config("kafka-python", group_id="g", protocol="share")
        assert broker.group("other").share_partitions == {}
        assert broker.group("other").deliveries == []
