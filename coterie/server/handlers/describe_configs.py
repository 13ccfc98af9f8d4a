"""DescribeConfigs: settings of topics and of the broker, and where they come from (KIP-133)."""

from typing import TYPE_CHECKING

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
)
from coterie.server.config.described import Setting, broker_settings, topic_settings
from coterie.server.config.keys import ConfigSource
from coterie.server.logs.topic_rules import invalid_name

if TYPE_CHECKING:
    from coterie.server.broker import Broker
    from coterie.server.network.connection import Connection


def handle(
    broker: "Broker", request: DescribeConfigsRequest, _connection: "Connection"
) -> DescribeConfigsResponse:
    """Answer for each resource."""
    results = []
    # Kafka answers a resource as often as it is named. Here once: a topic has so many settings that
    # a small request would be answered with gigabytes.
    resources = {(each.resource_type, each.resource_name): each for each in request.resources}
    for asked in resources.values():
        error, text, settings = ErrorCode.NONE, None, []
        try:
            settings = _settings(broker, asked)
        except ChangeRefused as refused:
            error, text = refused.error, refused.text
        wanted = set(asked.configuration_keys or ())
        results.append(
            DescribeConfigsResponseResult(
                error_code=error,
                error_message=text,
                resource_type=asked.resource_type,
                resource_name=asked.resource_name,
                configs=[
                    _answer(each, request)
                    for each in settings
                    if not wanted or each.key.name in wanted
                ],
            )
        )
    return DescribeConfigsResponse(results=results)


def _settings(broker: "Broker", asked: DescribeConfigsRequestResource) -> list[Setting]:
    name = asked.resource_name
    if asked.resource_type == TOPIC_RESOURCE:
        topic = broker.topics.by_name.get(name)
        invalid = invalid_name(name)
        if invalid is not None:
            raise ChangeRefused(ErrorCode.INVALID_TOPIC_EXCEPTION, invalid)
        if topic is None:
            raise ChangeRefused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)
        return topic_settings(broker.config, topic.config)
    if asked.resource_type == BROKER_RESOURCE:
        return _broker(broker, name)
    if asked.resource_type == GROUP_RESOURCE:
        if not name:
            raise ChangeRefused(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
        return []
    if asked.resource_type in (BROKER_LOGGER_RESOURCE, CLIENT_METRICS_RESOURCE):
        return []
    raise ChangeRefused(ErrorCode.INVALID_REQUEST, DEFAULT_MESSAGES[ErrorCode.INVALID_REQUEST])


def _broker(broker: "Broker", name: str) -> list[Setting]:
    settings = broker_settings(broker.config)
    if not name:
        # The cluster's defaults: what was altered, on this one broker.
        return [each for each in settings if each.source is ConfigSource.DYNAMIC_BROKER]
    if not name.isdigit():
        text = f"Broker id must be an integer, but it is: {name}"
        raise ChangeRefused(ErrorCode.INVALID_REQUEST, text)
    if int(name) != broker.node_id:
        text = (
            f"Unexpected broker id, expected {broker.node_id} or empty string, but received {name}"
        )
        raise ChangeRefused(ErrorCode.INVALID_REQUEST, text)
    return settings


def _answer(setting: Setting, request: DescribeConfigsRequest) -> DescribeConfigsResponseConfig:
    key = setting.key
    synonyms = setting.synonyms if request.include_synonyms else []
    return DescribeConfigsResponseConfig(
        name=key.name,
        value=setting.value,
        read_only=setting.read_only,
        config_source=setting.source,
        is_sensitive=False,
        synonyms=[
            DescribeConfigsResponseSynonym(name=each.name, value=each.value, source=each.source)
            for each in synonyms
        ],
        config_type=key.type,
        documentation=key.documentation if request.include_documentation else None,
    )
