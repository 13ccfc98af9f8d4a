"""DescribeConfigs: settings of topics and of the broker, and where they come from (KIP-133)."""

from collections import Counter
from collections.abc import Collection, Generator
from typing import Any

from coterie.protocol.errors import DEFAULT_MESSAGES, ErrorCode
from coterie.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsRequestResource,
    DescribeConfigsResponse,
    DescribeConfigsResponseConfig,
    DescribeConfigsResponseResult,
    DescribeConfigsResponseSynonym,
)
from coterie.server.config.changes import parse_node_id
from coterie.server.config.described import (
    Setting,
    broker_settings,
    client_metrics_settings,
    cluster_settings,
    group_settings,
    logger_settings,
    topic_settings,
)
from coterie.server.config.keys import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    ConfigSource,
)
from coterie.server.config.resources import ChangeRefused
from coterie.server.metadata.topic_rules import invalid_name
from coterie.server.network.delayed_response import Exchange
from coterie.server.network.sliced_response import answer_in_slices
from coterie.server.services import Services

# How often equal resources of one request are answered.
MAX_REPETITIONS = 10

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
    # Kafka answers equal resources as often as they are named. A broker has so many settings that a
    # small request would be answered with gigabytes, so their number is limited here.
    times: Counter[tuple[Any, ...]] = Counter()
    # One unsupported resource fails all of them [settings/described-values].
    is_supported = all(each.resource_type in _RESOURCES for each in request.resources)
    results = []
    for each in request.resources:
        yield
        resource = (each.resource_type, each.resource_name, *(each.configuration_keys or ()))
        times[resource] += 1
        if times[resource] > MAX_REPETITIONS:
            continue
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
    if resource.resource_type == BROKER_LOGGER_RESOURCE:
        if not name:
            raise _invalid("Broker id must not be empty")
        _check_node_id(broker, name, f"expected {broker.node_id}")
        return logger_settings(broker.environment.loggers, keys)
    if resource.resource_type == CLIENT_METRICS_RESOURCE:
        if not name:
            raise _invalid("Client metrics subscription name must not be empty")
        return client_metrics_settings(broker.config, name, keys)
    if not name:
        raise _invalid("Group name must not be empty")
    return group_settings(broker.config, name, keys)


def _broker_settings(broker: Services, name: str, keys: Collection[str] | None) -> list[Setting]:
    if not name:
        return cluster_settings(broker.config, keys)
    _check_node_id(broker, name, f"expected {broker.node_id} or empty string,")
    return broker_settings(broker.config, keys)


def _check_node_id(broker: Services, name: str, expected: str) -> None:
    node_id = parse_node_id(name)
    if node_id is None:
        raise _invalid(f"Broker id must be an integer, but it is: {name}")
    if node_id != broker.node_id:
        raise _invalid(f"Unexpected broker id, {expected} but received {name}")


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
