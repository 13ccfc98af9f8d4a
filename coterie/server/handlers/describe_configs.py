"""DescribeConfigs: settings of topics and of the broker, and where they come from (KIP-133)."""

from collections.abc import Collection, Generator

from coterie.protocol.errors import DEFAULT_MESSAGES, ErrorCode
from coterie.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsRequestResource,
    DescribeConfigsResponse,
    DescribeConfigsResponseConfig,
    DescribeConfigsResponseResult,
    DescribeConfigsResponseSynonym,
)
from coterie.server.config.changes import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    ChangeRefused,
    parse_node_id,
)
from coterie.server.config.described import (
    Setting,
    broker_settings,
    cluster_settings,
    topic_settings,
)
from coterie.server.config.keys import ConfigSource
from coterie.server.logs.topic_rules import invalid_name
from coterie.server.network.delayed_response import Exchange
from coterie.server.network.sliced_response import answer_in_slices
from coterie.server.services import Services

_RESOURCES = (
    TOPIC_RESOURCE,
    BROKER_RESOURCE,
    BROKER_LOGGER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
)


def handle(
    broker: Services, request: DescribeConfigsRequest, connection: Exchange
) -> DescribeConfigsResponse | None:
    """Describe each resource."""
    return answer_in_slices(broker, connection, _answer(broker, request))


def _answer(
    broker: Services, request: DescribeConfigsRequest
) -> Generator[None, None, DescribeConfigsResponse]:
    # Kafka answers equal resources as often as they are named. Here they are answered once: a
    # broker has so many settings that a small request would be answered with gigabytes.
    resources = {
        (each.resource_type, each.resource_name, *(each.configuration_keys or ())): each
        for each in request.resources
    }
    # One unsupported resource fails all of them [settings/describe-unsupported].
    is_supported = all(each.resource_type in _RESOURCES for each in request.resources)
    results = []
    for each in resources.values():
        yield
        error, text, settings = ErrorCode.NONE, "", list[Setting]()
        try:
            if not is_supported:
                raise _invalid(DEFAULT_MESSAGES[ErrorCode.INVALID_REQUEST])
            settings = _settings(broker, each)
        except ChangeRefused as refused:
            error, text = refused.error, refused.text or ""
        results.append(
            DescribeConfigsResponseResult(
                error_code=error,
                error_message=text,
                resource_type=each.resource_type,
                resource_name=each.resource_name,
                configs=[_config(setting, request) for setting in settings],
            )
        )
    return DescribeConfigsResponse(results=results)


def _settings(broker: Services, resource: DescribeConfigsRequestResource) -> list[Setting]:
    name = resource.resource_name
    # An empty list of keys means all of them, as a missing one does.
    keys = resource.configuration_keys or None
    if resource.resource_type == TOPIC_RESOURCE:
        topic = broker.topics.by_name.get(name)
        invalid = invalid_name(name)
        if invalid is not None:
            raise ChangeRefused(ErrorCode.INVALID_TOPIC_EXCEPTION, invalid)
        if topic is None:
            raise ChangeRefused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)
        return topic_settings(broker.config, topic.config, keys)
    if resource.resource_type == BROKER_RESOURCE:
        return _broker_settings(broker, name, keys)
    if resource.resource_type == GROUP_RESOURCE and not name:
        raise _invalid("Group name must not be empty")
    # Groups of the newer protocols, loggers and client metrics have no settings here.
    return []


def _broker_settings(broker: Services, name: str, keys: Collection[str] | None) -> list[Setting]:
    if not name:
        return cluster_settings(broker.config, keys)
    node_id = parse_node_id(name)
    if node_id is None:
        raise _invalid(f"Broker id must be an integer, but it is: {name}")
    if node_id != broker.node_id:
        expected = f"expected {broker.node_id} or empty string"
        raise _invalid(f"Unexpected broker id, {expected}, but received {name}")
    return broker_settings(broker.config, keys)


def _invalid(text: str) -> ChangeRefused:
    return ChangeRefused(ErrorCode.INVALID_REQUEST, text)


def _config(setting: Setting, request: DescribeConfigsRequest) -> DescribeConfigsResponseConfig:
    synonyms = setting.synonyms if request.include_synonyms else []
    return DescribeConfigsResponseConfig(
        name=setting.name,
        value=setting.value,
        read_only=setting.read_only,
        is_default=setting.source == ConfigSource.DEFAULT,
        config_source=setting.source,
        is_sensitive=setting.is_sensitive,
        synonyms=[
            DescribeConfigsResponseSynonym(name=each.name, value=each.value, source=each.source)
            for each in synonyms
        ],
        config_type=setting.type,
        documentation=setting.documentation if request.include_documentation else None,
    )
