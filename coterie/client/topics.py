"""Administration of topics: describe, create, delete."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from coterie.client.cluster import Cluster
from coterie.client.connection import Deadline
from coterie.protocol.errors import ErrorCode
from coterie.protocol.fields import ZERO_UUID, uuid_text
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

# In CreateTopics: the broker's num.partitions or default.replication.factor. Before version 4 a
# request needs numbers.
BROKER_DEFAULT = -1
_FIRST_VERSION_WITH_DEFAULTS = 4

_TOPIC_RESOURCE = 2
# The source of a built-in default in DescribeConfigs; other values were set by someone.
_DEFAULT_CONFIG = 5


class Partition(NamedTuple):
    """A partition, with node ids; `leader` is None without a leader."""

    partition_index: int
    leader: int | None
    replicas: list[int]
    in_sync: list[int]


class Topic(NamedTuple):
    """A topic.

    Attributes:
        topic_id: in Kafka's 22-character form; None if the broker does not support topic ids.
        error: 0 if the topic exists.
    """

    name: str
    topic_id: str | None
    internal: bool
    partitions: list[Partition]
    error: int

    @property
    def replication_factor(self) -> int:
        """The number of replicas of the first partition."""
        return len(self.partitions[0].replicas) if self.partitions else 0


class Change(NamedTuple):
    """The result of the creation or deletion of a topic; `error` is 0 if it succeeded."""

    name: str
    error: int
    message: str | None


def describe_topics(cluster: Cluster, names: Iterable[str] | None = None) -> list[Topic]:
    """Return topics in the order of their names in the call, or all topics by name.

    A topic that does not exist is returned with an error.
    """
    response = cluster.metadata(names)
    topics = {topic.name or "": _topic(topic) for topic in response.topics}
    if names is None:
        return [topics[name] for name in sorted(topics)]
    unknown = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return [
        topics.get(name, Topic(name, None, False, [], unknown)) for name in dict.fromkeys(names)
    ]


def broker_racks(cluster: Cluster) -> dict[int | None, str]:
    """Return the rack of each broker that has one, by node id."""
    return {each.node_id: each.rack for each in cluster.metadata([]).brokers if each.rack}


def topic_configs(cluster: Cluster, names: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return the settings of each topic that are not Kafka's defaults.

    A topic has no settings here if the broker refuses to describe them.
    """
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
    response = cluster.call_any(request, DescribeConfigsResponse)
    return {
        result.resource_name: {
            config.name: config.value or ""
            for config in result.configs
            if config.config_source != _DEFAULT_CONFIG
        }
        for result in response.results
    }


def create_topic(
    cluster: Cluster,
    name: str,
    partitions: int = BROKER_DEFAULT,
    replication_factor: int = BROKER_DEFAULT,
    configs: Mapping[str, str] | None = None,
    *,
    dry_run: bool = False,
) -> Change:
    """Create a topic; with `dry_run` only ask whether that would succeed."""
    controller = cluster.controller()
    if controller.version_for(CreateTopicsRequest) < _FIRST_VERSION_WITH_DEFAULTS:
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
        validate_only=dry_run,
    )
    response = controller.call(request, CreateTopicsResponse, Deadline(cluster.timeout_s))
    (result,) = response.topics
    return Change(result.name, result.error_code, result.error_message)


def delete_topics(cluster: Cluster, names: Iterable[str]) -> list[Change]:
    """Delete topics and all their records; return the results in the same order."""
    wanted = list(dict.fromkeys(names))
    request = DeleteTopicsRequest(
        topics=[DeleteTopicsRequestTopic(name=name) for name in wanted],
        topic_names=wanted,
        timeout_ms=int(cluster.timeout_s * 1000),
    )
    response = cluster.call_controller(request, DeleteTopicsResponse)
    results = {
        result.name: Change(result.name or "", result.error_code, result.error_message)
        for result in response.responses
    }
    missing = ErrorCode.UNKNOWN_SERVER_ERROR
    return [
        results.get(name, Change(name, missing, "the response does not mention it"))
        for name in wanted
    ]


def _topic(topic: MetadataResponseTopic) -> Topic:
    return Topic(
        name=topic.name or "",
        topic_id=None if topic.topic_id == ZERO_UUID else uuid_text(topic.topic_id),
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
