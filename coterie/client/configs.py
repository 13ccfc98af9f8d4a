"""Administration of settings: list what has any, describe, alter.

Settings of a broker and of its loggers are asked of that broker, all others (the cluster, topics,
groups, client metrics) of any. Topics and brokers are listed with Metadata, groups and client
metrics with ListConfigResources, whose version 0 (before Kafka 4.1) knows the latter only.
"""

from collections.abc import Iterable
from typing import NamedTuple

from coterie.client.cluster import Cluster
from coterie.client.connection import Deadline
from coterie.client.errors import ClientError, Refused, VersionUnsupported
from coterie.client.nodes import Node
from coterie.client.topics import describe_topics
from coterie.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsRequestResource,
    DescribeConfigsResponse,
    DescribeConfigsResponseConfig,
    DescribeConfigsResponseResult,
)
from coterie.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsRequestResource,
    IncrementalAlterConfigsResponse,
)
from coterie.protocol.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

# The types of resources by the names that kafka-configs gives them.
RESOURCE_TYPES = {
    "topics": 2,
    "brokers": 4,
    "broker-loggers": 8,
    "client-metrics": 16,
    "groups": 32,
}
_OF_ONE_BROKER = ("brokers", "broker-loggers")
# The settings of all brokers.
CLUSTER = ""

SOURCES = {
    1: "topic",
    2: "broker",
    3: "cluster",
    4: "file",
    5: "default",
    6: "logger",
    7: "client-metrics",
    8: "group",
}
DEFAULT_SOURCE = "default"
TYPES = {
    1: "boolean",
    2: "string",
    3: "int",
    4: "short",
    5: "long",
    6: "double",
    7: "list",
    8: "class",
    9: "password",
}


class Synonym(NamedTuple):
    """A place that gives a setting a value."""

    name: str
    value: str | None
    source: str


class Setting(NamedTuple):
    """A setting; what the broker does not say is None.

    Attributes:
        value: None also for a secret.
        source: one of `SOURCES`.
        type: one of `TYPES`.
        synonyms: the places that give it a value, the effective one first.
    """

    name: str
    value: str | None
    source: str | None
    type: str | None
    read_only: bool
    sensitive: bool
    documentation: str | None
    synonyms: list[Synonym]


class Described(NamedTuple):
    """The settings of a resource, or the error of the broker."""

    name: str
    settings: list[Setting]
    error: int
    message: str | None


class Change(NamedTuple):
    """One change of a setting.

    Attributes:
        operation: 0 set, 1 delete, 2 append to a list, 3 subtract from a list.
        value: None to delete.
    """

    name: str
    operation: int
    value: str | None


def list_resources(cluster: Cluster, kind: str) -> list[str]:
    """Return the names of the resources of a type that have settings.

    Raises:
        VersionUnsupported: the broker does not list resources of this type.
    """
    if kind == "topics":
        return [topic.name for topic in describe_topics(cluster)]
    if kind in _OF_ONE_BROKER:
        return [str(node.node_id) for node in cluster.brokers()]
    request = ListConfigResourcesRequest(resource_types=[RESOURCE_TYPES[kind]])
    response = cluster.call_any(request, ListConfigResourcesResponse)
    if response.error_code:
        raise Refused(response.error_code, f"The {kind} with settings")
    wanted = RESOURCE_TYPES[kind]
    found = [each for each in response.config_resources if each.resource_type == wanted]
    if kind == "groups" and not found and not _lists_groups(cluster, request):
        raise VersionUnsupported("The broker does not list the groups that have settings.")
    return sorted(each.resource_name for each in found)


def _lists_groups(cluster: Cluster, request: ListConfigResourcesRequest) -> bool:
    connection = cluster.any_broker(Deadline(cluster.timeout_s))
    return connection.version_for(type(request)) >= 1


def describe_settings(
    cluster: Cluster,
    kind: str,
    names: Iterable[str],
    keys: Iterable[str] = (),
    *,
    everything: bool = False,
) -> list[Described]:
    """Describe resources of one type, in the order of their names.

    Args:
        cluster: the cluster.
        kind: the type, one of `RESOURCE_TYPES`.
        names: the resources; for brokers "" is the cluster.
        keys: only these settings; none for all.
        everything: whether to ask for documentation and synonyms.
    """
    wanted = list(names)
    described: dict[str, Described] = {}
    for node, of_node in _by_node(cluster, kind, wanted):
        request = DescribeConfigsRequest(
            resources=[
                DescribeConfigsRequestResource(
                    resource_type=RESOURCE_TYPES[kind],
                    resource_name=name,
                    configuration_keys=list(keys) or None,
                )
                for name in of_node
            ],
            include_synonyms=everything,
            include_documentation=everything,
        )
        if node is None:
            response = cluster.call_any(request, DescribeConfigsResponse)
        else:
            response = cluster.call_node(node, request, DescribeConfigsResponse)
        described.update((each.resource_name, _described(each)) for each in response.results)
    return [described[name] for name in wanted if name in described]


def alter_settings(
    cluster: Cluster, kind: str, name: str, changes: Iterable[Change], *, dry_run: bool = False
) -> None:
    """Change settings of one resource.

    Raises:
        Refused: the broker has refused; nothing is changed.
    """
    request = IncrementalAlterConfigsRequest(
        resources=[
            IncrementalAlterConfigsRequestResource(
                resource_type=RESOURCE_TYPES[kind],
                resource_name=name,
                configs=[
                    IncrementalAlterConfigsRequestConfig(
                        name=each.name, config_operation=each.operation, value=each.value
                    )
                    for each in changes
                ],
            )
        ],
        validate_only=dry_run,
    )
    ((node, _),) = _by_node(cluster, kind, [name])
    if node is None:
        response = cluster.call_any(request, IncrementalAlterConfigsResponse)
    else:
        response = cluster.call_node(node, request, IncrementalAlterConfigsResponse)
    for result in response.responses:
        if result.error_code:
            raise Refused(
                result.error_code, f"{subject(kind, name)} was not changed", result.error_message
            )


def subject(kind: str, name: str) -> str:
    """Return what messages call a resource: Topic 'orders'."""
    if kind == "brokers" and name == CLUSTER:
        return "The cluster"
    words = {
        "topics": "Topic",
        "brokers": "Broker",
        "broker-loggers": "The log of broker",
        "client-metrics": "Subscription",
        "groups": "Group",
    }
    return f"{words[kind]} '{name}'"


def _by_node(cluster: Cluster, kind: str, names: list[str]) -> list[tuple[Node | None, list[str]]]:
    """Return the resources by the broker to ask; None for any.

    Raises:
        ClientError: there is no such broker.
    """
    of_any = [name for name in names if kind not in _OF_ONE_BROKER or name == CLUSTER]
    found: list[tuple[Node | None, list[str]]] = [(None, of_any)] if of_any else []
    others = [name for name in names if name not in of_any]
    if others:
        nodes = {str(node.node_id): node for node in cluster.brokers()}
        for name in others:
            if name not in nodes:
                raise ClientError(
                    f"Broker '{name}' does not exist.", f"The brokers are: {', '.join(nodes)}."
                )
            found.append((nodes[name], [name]))
    return found


def _described(result: DescribeConfigsResponseResult) -> Described:
    settings = sorted((_setting(each) for each in result.configs), key=lambda each: each.name)
    return Described(result.resource_name, settings, result.error_code, result.error_message)


def _setting(config: DescribeConfigsResponseConfig) -> Setting:
    return Setting(
        config.name,
        config.value,
        SOURCES.get(config.config_source),
        TYPES.get(config.config_type),
        config.read_only,
        config.is_sensitive,
        config.documentation or None,
        [Synonym(each.name, each.value, SOURCES.get(each.source, "")) for each in config.synonyms],
    )
