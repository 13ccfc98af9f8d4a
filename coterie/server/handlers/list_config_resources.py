"""ListConfigResources: what has settings that DescribeConfigs shows (KIP-1142).

[settings/config-resources]
"""

from collections.abc import Generator

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
    ListConfigResourcesResponseResource,
)
from coterie.server.config.keys import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
)
from coterie.server.network.delayed_response import Exchange
from coterie.server.network.sliced_response import answer_in_slices
from coterie.server.services import Services

_TYPES = (
    GROUP_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
)


def handle(
    broker: Services, request: ListConfigResourcesRequest, connection: Exchange
) -> ListConfigResourcesResponse | None:
    """List the resources of some types; version 0 lists client metrics."""
    types = set(request.resource_types) or set(_TYPES)
    if not types.issubset(_TYPES):
        return ListConfigResourcesResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION, config_resources=[]
        )
    if connection.version == 0:
        types = {CLIENT_METRICS_RESOURCE}
    return answer_in_slices(broker, connection, _answer(broker, types))


def _answer(
    broker: Services, types: set[int]
) -> Generator[None, None, ListConfigResourcesResponse]:
    resources = []
    for kind in _TYPES:
        if kind in types:
            yield
            resources += [
                ListConfigResourcesResponseResource(resource_name=name, resource_type=kind)
                for name in _names(broker, kind)
            ]
    return ListConfigResourcesResponse(error_code=ErrorCode.NONE, config_resources=resources)


def _names(broker: Services, kind: int) -> list[str]:
    """Return the names of the resources of one type."""
    if kind == TOPIC_RESOURCE:
        return sorted(broker.topics.by_name)
    if kind in (BROKER_RESOURCE, BROKER_LOGGER_RESOURCE):
        return [str(node_id) for node_id in broker.image.nodes]
    return sorted(broker.config.resources(kind))
