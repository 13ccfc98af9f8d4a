"""Topics as an administrator sees them: list, describe, create, delete."""

import base64
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from coterie.client.cluster import Cluster
from coterie.client.connection import Deadline
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestConfig,
    CreateTopicsRequestTopic,
    CreateTopicsResponse,
)
from coterie.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsRequestTopic,
    DeleteTopicsResponse,
)
from coterie.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsRequestResource,
    DescribeConfigsResponse,
)
from coterie.protocol.messages.metadata import MetadataResponsePartition, MetadataResponseTopic
from coterie.protocol.wire import ZERO_UUID

# Left to the broker: num.partitions and default.replication.factor. Brokers before CreateTopics v4
# want numbers.
BROKER_DEFAULT = -1
_DEFAULTS_FROM = 4

_TOPIC_RESOURCE = 2
# DescribeConfigs: where a value comes from. 5 is the built-in default; the others somebody has set.
_DEFAULT_CONFIG = 5


class Partition(NamedTuple):
    """A partition: its leader (None without one) and its replicas, by node id."""

    partition_index: int
    leader: int | None
    replicas: list[int]
    in_sync: list[int]


class Topic(NamedTuple):
    """A topic, or why there is none: `error` is 0 for one that exists.

    `topic_id` has Kafka's 22-character form; None where the broker knows no ids.
    """

    name: str
    topic_id: str | None
    internal: bool
    partitions: list[Partition]
    error: int

    @property
    def replication_factor(self) -> int:
        """Replicas of its first partition."""
        return len(self.partitions[0].replicas) if self.partitions else 0


class Change(NamedTuple):
    """What became of a topic that was to be created or deleted; `error` 0 is done."""

    name: str
    error: int
    message: str | None


def describe_topics(cluster: Cluster, names: Iterable[str] | None = None) -> list[Topic]:
    """The named topics as ordered, missing ones included; None for all topics, by name."""
    answer = cluster.metadata(names)
    topics = {topic.name or "": _topic(topic) for topic in answer.topics}
    if names is None:
        return [topics[name] for name in sorted(topics)]
    unknown = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return [
        topics.get(name, Topic(name, None, False, [], unknown)) for name in dict.fromkeys(names)
    ]


def topic_configs(cluster: Cluster, names: Iterable[str]) -> dict[str, dict[str, str]]:
    """The settings of each topic that are not Kafka's defaults; none where looking is denied."""
    wanted = list(names)
    if not wanted:
        return {}
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsRequestResource(
                resource_type=_TOPIC_RESOURCE, resource_name=name, configuration_keys=None
            )
            for name in wanted
        ]
    )
    answer = cluster.ask_any(request, DescribeConfigsResponse)
    return {
        result.resource_name: {
            config.name: config.value or ""
            for config in result.configs
            if config.config_source != _DEFAULT_CONFIG
        }
        for result in answer.results
    }


def create_topic(
    cluster: Cluster,
    name: str,
    partitions: int = BROKER_DEFAULT,
    replication_factor: int = BROKER_DEFAULT,
    configs: Mapping[str, str] | None = None,
) -> Change:
    """Create a topic; partitions and replicas are the broker's defaults unless given."""
    controller = cluster.controller()
    if controller.version_for(CreateTopicsRequest) < _DEFAULTS_FROM:
        partitions, replication_factor = max(partitions, 1), max(replication_factor, 1)
    request = CreateTopicsRequest(
        topics=[
            CreateTopicsRequestTopic(
                name=name,
                num_partitions=partitions,
                replication_factor=replication_factor,
                configs=[
                    CreateTopicsRequestConfig(name=key, value=value)
                    for key, value in (configs or {}).items()
                ],
            )
        ],
        timeout_ms=int(cluster.timeout_s * 1000),
    )
    answer = controller.call(request, CreateTopicsResponse, Deadline(cluster.timeout_s))
    (result,) = answer.topics
    return Change(result.name, result.error_code, result.error_message)


def delete_topics(cluster: Cluster, names: Iterable[str]) -> list[Change]:
    """Delete topics with all their records; one result each, in the order given."""
    wanted = list(dict.fromkeys(names))
    request = DeleteTopicsRequest(
        topics=[DeleteTopicsRequestTopic(name=name) for name in wanted],
        topic_names=wanted,
        timeout_ms=int(cluster.timeout_s * 1000),
    )
    answer = cluster.controller().call(request, DeleteTopicsResponse, Deadline(cluster.timeout_s))
    results = {
        result.name: Change(result.name or "", result.error_code, result.error_message)
        for result in answer.responses
    }
    unanswered = ErrorCode.UNKNOWN_SERVER_ERROR
    return [results.get(name, Change(name, unanswered, "no answer about it")) for name in wanted]


def _topic(topic: MetadataResponseTopic) -> Topic:
    return Topic(
        name=topic.name or "",
        topic_id=None if topic.topic_id == ZERO_UUID else readable_id(topic.topic_id),
        internal=topic.is_internal,
        partitions=sorted(_partition(partition) for partition in topic.partitions),
        error=topic.error_code,
    )


def _partition(partition: MetadataResponsePartition) -> Partition:
    return Partition(
        partition.partition_index,
        partition.leader_id if partition.leader_id >= 0 else None,
        partition.replica_nodes,
        partition.isr_nodes,
    )


def readable_id(topic_id: bytes) -> str:
    """A topic id as Kafka's tools print it: 22 characters of URL-safe base64."""
    return base64.urlsafe_b64encode(topic_id).decode().rstrip("=")
