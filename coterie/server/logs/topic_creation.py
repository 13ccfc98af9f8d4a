"""The checks of CreateTopics and CreatePartitions, in Kafka's order and with its words."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from coterie.protocol.errors import ErrorCode
from coterie.server.config.keys import InvalidValue
from coterie.server.config.topic_keys import TOPIC
from coterie.server.logs.topics import MAX_PARTITIONS_PER_REQUEST, TopicRefused

if TYPE_CHECKING:
    from coterie.protocol.messages.create_topics import CreateTopicsRequestTopic
    from coterie.server.logs.topics import Topics


def check_new_topic(topics: "Topics", asked: "CreateTopicsRequestTopic", node_id: int) -> int:
    """Check a topic to be created; returns its number of partitions, -1 for the default.

    Raises:
        TopicRefused: it can't be created.
    """
    topics.check_name(asked.name)
    check_settings({config.name: config.value for config in asked.configs})
    if asked.assignments:
        return _check_assignments(asked, node_id)
    factor = asked.replication_factor
    if factor < -1 or factor == 0:
        raise TopicRefused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if asked.num_partitions < -1 or asked.num_partitions == 0:
        raise TopicRefused(
            ErrorCode.INVALID_PARTITIONS,
            "Number of partitions was set to an invalid non-positive value.",
        )
    if factor > 1:
        raise TopicRefused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {factor} time(s): The target replication factor of"
            f" {factor} cannot be reached because only 1 broker(s) are registered or some brokers"
            " have all their log directories cordoned.",
        )
    return asked.num_partitions


def check_settings(values: Mapping[str, str | None]) -> None:
    """Check the settings of a topic. Raises TopicRefused with INVALID_CONFIG."""
    for name, value in values.items():
        key = TOPIC.get(name)
        if key is None:
            raise TopicRefused(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {name}")
        if value is None:
            text = f"Null value not supported for topic configs: {name}"
            raise TopicRefused(ErrorCode.INVALID_CONFIG, text)
        try:
            key.parse(value)
        except InvalidValue as error:
            raise TopicRefused(ErrorCode.INVALID_CONFIG, str(error)) from None


def check_replicas(broker_ids: Sequence[int], node_id: int) -> None:
    """Check where the replicas of one partition shall be. Raises INVALID_REPLICA_ASSIGNMENT."""
    text = None
    if not broker_ids:
        text = "includes an empty replica list."
    elif len(set(broker_ids)) < len(broker_ids):
        twice = next(each for each in broker_ids if broker_ids.count(each) > 1)
        text = f"includes the broker {twice} more than once."
    elif list(broker_ids) != [node_id]:
        other = next(each for each in broker_ids if each != node_id)
        text = f"includes broker {other}, but no such broker is registered."
    if text is not None:
        text = f"The manual partition assignment {text}"
        raise TopicRefused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)


def _check_assignments(asked: "CreateTopicsRequestTopic", node_id: int) -> int:
    given = "A manual partition assignment was specified, but"
    if asked.replication_factor != -1:
        text = f"{given} replication factor was not set to -1."
        raise TopicRefused(ErrorCode.INVALID_REQUEST, text)
    if asked.num_partitions != -1:
        text = f"{given} numPartitions was not set to -1."
        raise TopicRefused(ErrorCode.INVALID_REQUEST, text)
    seen = set()
    for assignment in asked.assignments:
        index = assignment.partition_index
        if index in seen:
            text = f"Found multiple manual partition assignments for partition {index}"
            raise TopicRefused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
        seen.add(index)
        check_replicas(assignment.broker_ids, node_id)
    if seen != set(range(len(seen))):
        text = "partitions should be a consecutive 0-based integer sequence"
        raise TopicRefused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
    return len(seen)


def too_many_partitions(counts: Sequence[int]) -> bool:
    """Whether one request would create more partitions than any may."""
    return sum(max(count, 0) for count in counts) > MAX_PARTITIONS_PER_REQUEST
