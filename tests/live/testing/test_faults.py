"""Faults that unmodified clients meet, and what they do then."""

from collections.abc import Iterator

import pytest
from kafka import KafkaProducer

from coterie.testing import (
    AnswerError,
    AnswerGarbage,
    Broker,
    CloseAfter,
    CloseBefore,
    CutAnswer,
    Delay,
    Fault,
    FaultNotHit,
    NeverAnswer,
    RequestNotSeen,
    Throttle,
    WrongUse,
)
from coterie.testing.faults import Scope
from tests.live.deadlines import GENEROUS_S, eventually
from tests.live.testing.consumers import confluent, kafka_python

# So that a client gives a request up soon.
IMPATIENT = {"request_timeout_ms": 2_000, "session_timeout_ms": 1_500, "heartbeat_interval_ms": 300}


@pytest.fixture
def broker() -> Iterator[Broker]:
    """A broker with a topic of two partitions."""
    with Broker(topics={"t": 2}) as running:
        yield running


def met(fault: Fault, times: int = 1) -> None:
    """Wait until requests have met a fault."""
    eventually(lambda: fault.hits >= times, "requests that meet the fault", evidence=lambda: fault)


def test_consumer_looks_the_coordinator_up_again(broker: Broker) -> None:
    with kafka_python(broker, "g", "t"):
        broker.group("g").wait_assigned()
        broker.requests.clear()
        with broker.fault(AnswerError("NOT_COORDINATOR"), api="Heartbeat", times=1) as fault:
            met(fault)
        eventually(lambda: broker.requests.of("FindCoordinator", group=None), "a look-up")
        broker.group("g").wait_assigned()


def test_consumer_waits_while_the_coordinator_loads(broker: Broker) -> None:
    error = AnswerError("COORDINATOR_LOAD_IN_PROGRESS")
    with broker.fault(error, api="JoinGroup", times=2) as fault, confluent(broker, "g", "t"):
        broker.group("g").wait_assigned()
        fault.must_have_hit(2)


def test_fenced_member_begins_anew(broker: Broker) -> None:
    with kafka_python(broker, "g", "t"):
        group = broker.group("g").wait_assigned().result
        before = group.members[0].member_id
        with broker.fault(AnswerError("UNKNOWN_MEMBER_ID"), api="Heartbeat", times=1) as fault:
            met(fault)
        eventually(
            lambda: before not in {each.member_id for each in group.members[-1:]}, "a new id"
        )


@pytest.mark.parametrize(
    "action",
    [CloseBefore(), CloseAfter(), CutAnswer(), AnswerGarbage(), NeverAnswer(), Delay(0.3)],
    ids=lambda action: type(action).__name__,
)
def test_consumer_survives_a_broken_fetch(broker: Broker, action: object) -> None:
    with kafka_python(broker, "g", "t", **IMPATIENT) as values:
        broker.group("g").wait_assigned()
        with broker.fault(action, api="Fetch", topic=None, times=1) as fault:  # type: ignore[arg-type]
            met(fault)
        broker.produce("t", "a")
        eventually(lambda: values == [b"a"], "the record", evidence=lambda: values)


@pytest.mark.parametrize("close", [CloseBefore(), CloseAfter()], ids=["before", "after"])
def test_commit_takes_effect_before_the_connection_closes(
    broker: Broker, close: CloseBefore | CloseAfter
) -> None:
    with broker.fault(close, api="Produce", times=1) as fault:
        producer = KafkaProducer(**broker.client_config("kafka-python"), enable_idempotence=False)
        producer.send("t", b"a", partition=0).get(GENEROUS_S)
        producer.close()
        fault.must_have_hit(1)
    # A response that is lost makes a producer without idempotence store a record twice.
    stored = [each.value for each in broker.records("t")]
    assert stored == ([b"a"] if isinstance(close, CloseBefore) else [b"a", b"a"])


def test_error_of_a_produce_is_retried(broker: Broker) -> None:
    with broker.fault(AnswerError("NOT_LEADER_OR_FOLLOWER"), api="Produce", times=1) as fault:
        producer = KafkaProducer(**broker.client_config("kafka-python"))
        producer.send("t", b"a", partition=0).get(GENEROUS_S)
        producer.close()
        fault.must_have_hit()
    assert [each.value for each in broker.records("t")] == [b"a"]


def test_throttle_time_is_in_the_response(broker: Broker) -> None:
    with broker.fault(Throttle(50), api="Heartbeat") as fault, kafka_python(broker, "g", "t"):
        broker.group("g").wait_assigned()
        met(fault, 2)
    # The coordinator shares its heartbeat responses; the next ones have no throttle time.
    with kafka_python(broker, "h", "t"):
        broker.group("h").wait_assigned()


NOT_OF_CLIENT_B = (
    r"no Heartbeat of client 'b' was received while the fault was installed; 0 before\n"
    r"meanwhile: \d+ Heartbeat v\d of client 'a' in group 'g'$"
)


def test_scope_narrows_requests_down(broker: Broker) -> None:
    with (
        broker.fault(AnswerError("REBALANCE_IN_PROGRESS"), api="Heartbeat", client_id="b") as b,
        broker.fault(AnswerError("UNKNOWN_SERVER_ERROR"), group="other") as other,
        kafka_python(broker, "g", "t", client_id="a"),
    ):
        broker.group("g").wait_assigned()
        broker.requests.clear()
        eventually(lambda: len(broker.requests.of("Heartbeat", client_id="a")) >= 2, "heartbeats")
        assert (b.hits, other.hits) == (0, 0)
        with pytest.raises(FaultNotHit, match=NOT_OF_CLIENT_B):
            b.must_have_hit()


def test_chance_is_the_same_for_the_same_seed() -> None:
    def drawn(seed: int) -> list[bool]:
        fault = Fault(CloseBefore(), Scope(), probability=0.5, skip=2, times=20, seed=seed)
        return [fault.is_met(0) for _ in range(100)]

    assert drawn(1) == drawn(1) != drawn(2)
    assert sum(drawn(1)) == 20
    assert not any(drawn(1)[:2])


def test_requests_are_recorded(broker: Broker) -> None:
    with confluent(broker, "g", "t", client_id="a"):
        broker.group("g").wait_assigned()
    join = broker.requests.last("JoinGroup", client_id="a")
    assert (join.group_id, join.api) == ("g", "JoinGroup")
    assert str(join).endswith("a JoinGroup v5 group=g") or " JoinGroup v" in str(join)
    assert broker.requests.of("LeaveGroup", group="g")
    assert not broker.requests.of("LeaveGroup", version=99)
    with pytest.raises(RequestNotSeen, match=r"no DeleteGroups was sent; APIs seen: .*JoinGroup"):
        broker.requests.last("DeleteGroups")
    with pytest.raises(WrongUse, match="did you mean Heartbeat"):
        broker.requests.of("Heartbeet")
