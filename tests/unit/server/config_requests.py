"""Requests that describe and alter settings, and their answers in a short form."""

from typing import Any

from coterie.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsRequestResource,
)
from coterie.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsRequestResource,
)
from tests.unit.server.manual import Client, make_broker
from tests.unit.server.running import SocketClient

TOPIC, BROKER, GROUP = 2, 4, 32
SET, DELETE, APPEND, SUBTRACT = range(4)

# An error code and its text.
Outcome = tuple[int, str | None]


def describe(
    client: Client | SocketClient, kind: int, name: str, *keys: str, version: int = 4
) -> Any:
    """Describe one resource with everything, or only its settings `keys`."""
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsRequestResource(
                resource_type=kind, resource_name=name, configuration_keys=list(keys) or None
            )
        ],
        include_synonyms=True,
        include_documentation=True,
    )
    (result,) = client.call(request, version).results
    return result


def value_of(
    client: Client, name: str, kind: int = TOPIC, resource: str = "t", version: int = 4
) -> Any:
    """Return value, source and synonyms of one setting."""
    (config,) = describe(client, kind, resource, name, version=version).configs
    synonyms = [(each.name, each.value, each.source) for each in config.synonyms]
    return config.value, config.config_source, synonyms


def change(
    client: Client,
    kind: int,
    name: str,
    *changes: tuple[str, int, str | None],
    only: bool = False,
    version: int = 1,
) -> Outcome:
    """Change settings of one resource, or `only` check them."""
    request = IncrementalAlterConfigsRequest(
        resources=[
            IncrementalAlterConfigsRequestResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    IncrementalAlterConfigsRequestConfig(name=a, config_operation=b, value=c)
                    for a, b, c in changes
                ],
            )
        ],
        validate_only=only,
    )
    (answer,) = client.call(request, version).responses
    return answer.error_code, answer.error_message


def client_with_topic(settings: dict[str, str] | None = None) -> Client:
    """Return a client of a new broker that has the topic `t`."""
    client = Client(make_broker(settings))
    client.broker.controller.create("t", 1, {})
    return client
