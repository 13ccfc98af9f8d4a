"""IncrementalAlterConfigs changes some settings of a resource (KIP-339)."""

from typing import TYPE_CHECKING

from coterie.server.config_changes import Change, ChangeRefused, alter
from protocol.errors import ErrorCode
from protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestResource,
    IncrementalAlterConfigsResponse,
    IncrementalAlterConfigsResponseResource,
)

if TYPE_CHECKING:
    from coterie.server.broker import Broker
    from coterie.server.connection import Connection


def handle(
    broker: "Broker", request: IncrementalAlterConfigsRequest, _connection: "Connection"
) -> IncrementalAlterConfigsResponse:
    """Change each resource, or only check whether it could be changed."""
    times: dict[tuple[int, str], int] = {}
    for each in request.resources:
        key = (each.resource_type, each.resource_name)
        times[key] = times.get(key, 0) + 1
    responses = []
    for each in request.resources:
        error, text = ErrorCode.NONE, None
        try:
            once = times[(each.resource_type, each.resource_name)] == 1
            _alter(broker, each, once=once, only_check=request.validate_only)
        except ChangeRefused as refused:
            error, text = refused.error, refused.text
        responses.append(
            IncrementalAlterConfigsResponseResource(
                error_code=error,
                error_message=text,
                resource_type=each.resource_type,
                resource_name=each.resource_name,
            )
        )
    return IncrementalAlterConfigsResponse(responses=responses)


def _alter(
    broker: "Broker", each: IncrementalAlterConfigsRequestResource, *, once: bool, only_check: bool
) -> None:
    if not once:
        text = "Each resource must appear at most once."
        raise ChangeRefused(ErrorCode.INVALID_REQUEST, text)
    alter(
        broker,
        each.resource_type,
        each.resource_name,
        [Change(config.name, config.config_operation, config.value) for config in each.configs],
        replace=False,
        only_check=only_check,
    )
