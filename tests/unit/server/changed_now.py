"""Changes of topics and settings that are made here and now."""

from collections.abc import Mapping

from coterie.server.broker import Broker
from coterie.server.logs.partition import Topic
from coterie.server.metadata.settings_file import Alterations
from coterie.server.metadata.topic_changes import make_now


def delete(broker: Broker, topic: Topic) -> None:
    """Delete a topic, and nothing that others have of it."""
    make_now(broker.controller.deletion(topic))


def add_partitions(broker: Broker, topic: Topic, count: int) -> None:
    """Raise the number of partitions of a topic to `count`."""
    make_now(broker.controller.extension(topic, count))


def set_overrides(broker: Broker, topic: Topic, overrides: Mapping[str, str]) -> None:
    """Replace a topic's own settings."""
    make_now(broker.controller.new_overrides(topic, overrides))


def set_broker_settings(broker: Broker, own: Mapping[str, str], cluster: Mapping[str, str]) -> None:
    """Replace the altered settings of the broker and of the cluster."""
    alterations = Alterations()
    alterations.broker, alterations.cluster = own, cluster
    make_now(broker.controller.alter(alterations))
