"""Several brokers in a process of their own, with a real client, over their control port."""

from collections.abc import Iterator

import confluent_kafka
import pytest

from coterie.testing import (
    AnswerError,
    BrokerNotStarted,
    ProcessCluster,
    WaitTimedOut,
    WrongUse,
)

# They share the brokers.
pytestmark = pytest.mark.xdist_group("process-cluster")


@pytest.fixture(scope="module")
def kafka() -> Iterator[ProcessCluster]:
    """Three brokers with a topic."""
    with ProcessCluster(topics={"t": 3}) as running:
        yield running


def test_client_goes_on_when_its_coordinator_is_killed(kafka: ProcessCluster) -> None:
    config = kafka.client_config("confluent-kafka", group_id="billing")
    consumer = confluent_kafka.Consumer(config)
    try:
        consumer.subscribe(["t"])
        kafka.produce("t", "espresso")
        assert consumer.poll(30) is not None
        dead = kafka.coordinator_of("billing")
        assert dead is not None
        generation = kafka.group("billing").generation
        kafka.kill(dead)
        assert dead not in kafka.brokers
        kafka.wait_coordinator("billing")
        where = confluent_kafka.TopicPartition("t", 0, 1)
        consumer.commit(offsets=[where], asynchronous=False)
        assert kafka.group("billing").wait_stable(members=1).result.generation == generation
        assert kafka.group("billing").offsets[("t", 0)] == 1
        assert "billing" in kafka.groups
        kafka.start(dead)
        assert kafka.brokers == [1, 2, 3]
        (move,) = kafka.group("billing").moves
        assert move[1:] == (dead, kafka.coordinator_of("billing"))
        assert str(move) in kafka.group("billing").history_lines()
    finally:
        consumer.close()


def test_broker_is_paused_and_its_partitions_move(kafka: ProcessCluster) -> None:
    old = kafka.leader_of("t", 1)
    with kafka.paused(old, detect_ms=0):
        assert kafka.paused_brokers == [old]
        kafka.wait_isr("t", 1, isr=[each for each in kafka.brokers if each != old])
        assert kafka.leader_of("t", 1) != old
    assert kafka.paused_brokers == []
    assert old is not None
    kafka.move("t", 1, to=old)
    assert kafka.leader_of("t", 1) == old
    with pytest.raises(WaitTimedOut, match=r"broker 9 leads t-1.*\nlive brokers: 1, 2, 3"):
        kafka.wait_leader("t", 1, node_id=9, timeout_s=0.05)


def test_fault_of_one_broker(kafka: ProcessCluster) -> None:
    kafka.requests.clear()
    action = AnswerError("COORDINATOR_NOT_AVAILABLE")
    with kafka.fault(action, api="FindCoordinator", times=1) as fault:
        config = kafka.client_config("confluent-kafka", group_id="other")
        consumer = confluent_kafka.Consumer(config)
        consumer.subscribe(["t"])
        consumer.poll(5)
        consumer.close()
        fault.must_have_hit()
    assert kafka.requests.of("FindCoordinator")


def test_wrong_use(kafka: ProcessCluster) -> None:
    with pytest.raises(WrongUse, match="there is no broker 9; there are 1, 2, 3"):
        kafka.kill(9)
    with pytest.raises(WrongUse, match="broker 1 runs already"):
        kafka.start(1)
    with pytest.raises(WrongUse, match="detect_ms is a whole number from 0"):
        kafka.kill(1, detect_ms=-1)
    with pytest.raises(WrongUse, match="there is no broker 9"):
        kafka.address(9)
    with pytest.raises(WrongUse, match="process of its own"):
        kafka.virtual_time()
    with pytest.raises(BrokerNotStarted):
        _ = ProcessCluster().bootstrap_servers


def test_data_survive_the_process(tmp_path: str) -> None:
    for generation in range(2):
        with ProcessCluster(brokers=2, data_dir=str(tmp_path)) as kafka:
            if not generation:
                kafka.topic("kept", partitions=2)
            assert kafka.topics == {"kept": 2}
            assert kafka.produce("kept", "v") == generation
