"""Kafka's rules for topics: legal names, settings, and where replicas may be.

The checks run in Kafka's order and use Kafka's words, because clients and their tests compare both
[topics/creation-checks].
"""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from coterie.protocol.errors import ErrorCode
from coterie.protocol.topic_names import (
    JOURNAL_TOPIC,
    METADATA_TOPIC,
    OFFSETS_TOPIC,
    SECURITY_TOPIC,
    SHARE_GROUPS_TOPIC,
    TRANSACTIONS_TOPIC,
)
from coterie.server.config.config import Config
from coterie.server.config.keys import InvalidValue
from coterie.server.config.topic_keys import TOPIC, check_compaction_lags, check_topic_value

if TYPE_CHECKING:
    from coterie.protocol.messages.create_topics import CreateTopicsRequestTopic

MAX_NAME_LENGTH = 249
_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]+", re.ASCII)

# Kafka's bound on the partitions that one CreateTopics request creates.
MAX_PARTITIONS_PER_REQUEST = 10_000

# Kafka's internal topics [topics/internal-topics].
INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_GROUPS_TOPIC})
# Topics that only the broker writes. The journal is not internal in Kafka's sense, because readers
# of topics (Spark's Kafka connector, for example) skip internal ones.
OWN_TOPICS = frozenset({*INTERNAL_TOPICS, JOURNAL_TOPIC})


class TopicRefused(Exception):  # noqa: N818 - a refusal is an answer, not a failure of the server
    """A topic is not created, changed or deleted.

    Attributes:
        error: Kafka's error code.
        text: Kafka's message; None where Kafka sends none.
    """

    def __init__(self, error: ErrorCode, text: str | None) -> None:
        super().__init__(error, text)
        self.error = error
        self.text = text


def invalid_name(name: str) -> str | None:
    """Return why no topic can have this name, or None if the name is legal [topics/legal-names]."""
    if not name:
        reason = "the empty string is not allowed"
    elif name in (".", ".."):
        reason = f"'{name}' is not allowed"
    elif len(name) > MAX_NAME_LENGTH:
        reason = f"the length of '{name}' is longer than the max allowed length {MAX_NAME_LENGTH}"
    elif not _LEGAL_NAME.fullmatch(name):
        reason = (
            f"'{name}' contains one or more characters other than ASCII alphanumerics,"
            " '.', '_' and '-'"
        )
    else:
        return None
    return f"Topic name is invalid: {reason}"


def check_not_prohibited(name: str) -> None:
    """Check that a topic's directory would be found again [topics/prohibited-names].

    Raises:
        TopicRefused: a directory of this name is not a topic.
    """
    if name in (METADATA_TOPIC, SECURITY_TOPIC):
        text = f"Creation of internal topic {name} is prohibited."
        raise TopicRefused(ErrorCode.INVALID_REQUEST, text)


def collision_key(name: str) -> str:
    """Return the form of a name in which colliding names are equal [topics/legal-names]."""
    return name.replace(".", "_")


def check_new_topic(asked: "CreateTopicsRequestTopic", node_ids: Collection[int]) -> int:
    """Check the settings, partitions and replicas of a topic that is to be created.

    Args:
        asked: the topic.
        node_ids: the brokers of the cluster.

    Returns:
        The number of partitions, or -1 for the broker's default.

    Raises:
        TopicRefused: one of them is not possible.
    """
    check_settings({config.name: config.value for config in asked.configs})
    if asked.assignments:
        return _check_assignments(asked, node_ids)
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
    check_factor(factor, node_ids)
    return asked.num_partitions


def check_factor(factor: int, node_ids: Collection[int]) -> None:
    """Check a replication factor.

    Raises:
        TopicRefused: there are fewer brokers (INVALID_REPLICATION_FACTOR).
    """
    if factor > len(node_ids):
        raise TopicRefused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {factor} time(s): The target replication factor of"
            f" {factor} cannot be reached because only {len(node_ids)} broker(s) are registered or"
            " some brokers have all their log directories cordoned.",
        )


def check_settings(values: Mapping[str, str | None]) -> None:
    """Check the settings of a topic.

    Raises:
        TopicRefused: a setting is unknown or its value is invalid (INVALID_CONFIG).
    """
    given = {name: value for name, value in values.items() if value is not None}
    if len(given) < len(values):
        nulls = ", ".join(sorted(values.keys() - given.keys()))
        text = f"Null value not supported for topic configs: {nulls}"
        raise TopicRefused(ErrorCode.INVALID_CONFIG, text)
    for name in given:
        if name not in TOPIC:
            raise TopicRefused(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {name}")
    try:
        for name, value in given.items():
            check_topic_value(name, value)
        check_compaction_lags(given)
    except InvalidValue as error:
        raise TopicRefused(ErrorCode.INVALID_CONFIG, str(error)) from None


def check_replicas(broker_ids: Sequence[int], node_ids: Collection[int]) -> None:
    """Check the brokers that are to hold the replicas of one partition [topics/creation-checks].

    Raises:
        TopicRefused: there are none, one is repeated, or one is not in the cluster
            (INVALID_REPLICA_ASSIGNMENT).
    """
    text = None
    if not broker_ids:
        text = "includes an empty replica list."
    elif len(set(broker_ids)) < len(broker_ids):
        repeated = next(each for each in broker_ids if broker_ids.count(each) > 1)
        text = f"includes the broker {repeated} more than once."
    elif any(each not in node_ids for each in broker_ids):
        other = next(each for each in broker_ids if each not in node_ids)
        text = f"includes broker {other}, but no such broker is registered."
    if text is not None:
        text = f"The manual partition assignment {text}"
        raise TopicRefused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)


def check_some_live(index: int, broker_ids: Sequence[int], live_ids: Collection[int]) -> None:
    """Check that one of the brokers that are to hold a partition is up.

    Raises:
        TopicRefused: none is (INVALID_REPLICA_ASSIGNMENT).
    """
    if not any(each in live_ids for each in broker_ids):
        text = (
            f"All brokers specified in the manual partition assignment for partition {index} are"
            " fenced or in controlled shutdown."
        )
        raise TopicRefused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)


def check_same_factor(broker_ids: Sequence[int], factor: int) -> None:
    """Check that a partition has as many replicas as those before it.

    Raises:
        TopicRefused: it has not (INVALID_REPLICA_ASSIGNMENT).
    """
    if len(broker_ids) != factor:
        text = (
            f"The manual partition assignment includes a partition with {len(broker_ids)}"
            " replica(s), but this is not consistent with previous partitions, which have"
            f" {factor} replica(s)."
        )
        raise TopicRefused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)


def _check_assignments(asked: "CreateTopicsRequestTopic", node_ids: Collection[int]) -> int:
    """Check a manual assignment of partitions to brokers; return the number of partitions."""
    conflict = "A manual partition assignment was specified, but"
    if asked.replication_factor != -1:
        text = f"{conflict} replication factor was not set to -1."
        raise TopicRefused(ErrorCode.INVALID_REQUEST, text)
    if asked.num_partitions != -1:
        text = f"{conflict} numPartitions was not set to -1."
        raise TopicRefused(ErrorCode.INVALID_REQUEST, text)
    seen = set()
    for assignment in asked.assignments:
        index = assignment.partition_index
        if index in seen:
            text = f"Found multiple manual partition assignments for partition {index}"
            raise TopicRefused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
        seen.add(index)
        check_replicas(assignment.broker_ids, node_ids)
        check_same_factor(assignment.broker_ids, len(asked.assignments[0].broker_ids))
    if seen != set(range(len(seen))):
        text = "partitions should be a consecutive 0-based integer sequence"
        raise TopicRefused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
    return len(seen)


def internal_overrides(name: str, config: Config) -> dict[str, str]:
    """Return the settings of its own that an internal topic begins with.

    [topics/offsets-topic] [transactions/topic] [share-partitions/state-placement]
    """
    if name == OFFSETS_TOPIC:
        return {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(config.text("offsets.topic.segment.bytes")),
        }
    if name == TRANSACTIONS_TOPIC:
        return {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": str(config.text("transaction.state.log.min.isr")),
            "segment.bytes": str(config.text("transaction.state.log.segment.bytes")),
            "unclean.leader.election.enable": "false",
        }
    if name == SHARE_GROUPS_TOPIC:
        return {
            "cleanup.policy": "delete",
            "compression.type": "producer",
            "min.insync.replicas": str(config.text("share.coordinator.state.topic.min.isr")),
            "retention.ms": "-1",
            "segment.bytes": str(config.text("share.coordinator.state.topic.segment.bytes")),
        }
    return {}
