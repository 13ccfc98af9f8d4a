"""The clients of live runs by name."""

from collections.abc import Callable

from coterie.lab.errors import WrongInput, closest
from coterie.lab.live import libraries
from coterie.lab.live.clients import LiveClient
from coterie.lab.live.connect import Connect
from coterie.lab.live.kafka_streams import KafkaStreams
from coterie.lab.live.old_consumer import OldConsumerJava, OldConsumerPort
from coterie.lab.live.rocketmq import RocketMq
from coterie.lab.live.share import ConfluentShare

CLIENTS: dict[str, Callable[[], LiveClient]] = {
    "aiokafka": libraries.aiokafka,
    "kafka-python": libraries.kafka_python,
    "confluent": libraries.confluent,
    "confluent-share": ConfluentShare,
    "connect": Connect,
    "kafka-streams": KafkaStreams,
    "old-consumer": OldConsumerPort,
    "old-consumer-java": OldConsumerJava,
    "rocketmq": RocketMq,
}


def client_named(name: str) -> LiveClient:
    """Return a client.

    Raises:
        WrongInput: there is none of this name.
    """
    if name not in CLIENTS:
        raise WrongInput(
            f"There is no client '{name}'{closest(name, CLIENTS)}. Clients: {', '.join(CLIENTS)}."
        )
    return CLIENTS[name]()
