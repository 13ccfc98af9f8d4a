"""librdkafka's share consumer while leaders of partitions and coordinators of states move."""

from confluent_kafka import AcknowledgeType

from coterie.testing import Cluster, cluster
from tests.live.broker_process import Broker
from tests.live.consumer_groups import ConsumerGroups
from tests.live.deadlines import eventually
from tests.live.records import produce
from tests.live.share_readers import SETTINGS, reader

GROUP = TOPIC = "shared"
STATES = "__share_group_state"
STATE_PARTITIONS = 3


def _other(kafka: Cluster, node_id: int | None) -> int:
    return next(each for each in kafka.brokers if each != node_id)


def _move_leader(kafka: Cluster) -> None:
    kafka.move(TOPIC, 0, to=_other(kafka, kafka.leader_of(TOPIC)))


def _move_states(kafka: Cluster) -> None:
    """Let other brokers keep the states of all share partitions."""
    for index in range(STATE_PARTITIONS):
        kafka.move(STATES, index, to=_other(kafka, kafka.leader_of(STATES, index)))


def _move_both(kafka: Cluster) -> None:
    _move_leader(kafka)
    _move_states(kafka)


def _kill_leader(kafka: Cluster) -> None:
    dead = kafka.leader_of(TOPIC)
    assert dead is not None
    kafka.kill(dead)
    kafka.start(dead)


def test_a_released_record_comes_again_once_wherever_its_count_was_persisted() -> None:
    """Each record is accepted at its second delivery, and then never comes again."""
    moves = (_move_leader, _move_states, _move_both, _kill_leader)
    settings = {**SETTINGS, "share.coordinator.state.topic.num.partitions": str(STATE_PARTITIONS)}

    def decide(_value: bytes | None, count: int | None) -> AcknowledgeType:
        return AcknowledgeType.RELEASE if count == 1 else AcknowledgeType.ACCEPT

    with cluster(topics={TOPIC: 1}, config=settings) as kafka:
        broker = Broker(kafka.bootstrap_servers, own=True, short_session_ms=0)
        ConsumerGroups(broker, GROUP).alter({"share.auto.offset.reset": "earliest"})
        wanted: list[tuple[bytes, int]] = []
        with reader(kafka.bootstrap_servers, GROUP) as one:

            def has_wanted() -> bool:
                one.work(decide)
                return len(one.given) >= len(wanted)

            for number, move in enumerate(moves):
                value = b"%d" % number
                produce(kafka.bootstrap_servers, TOPIC, [(None, value)])
                for count in (1, 2):
                    wanted.append((value, count))
                    eventually(has_wanted, f"delivery {count}", evidence=lambda: one.given)
                    move(kafka)
            assert one.given == wanted
