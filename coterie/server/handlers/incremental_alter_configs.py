"""IncrementalAlterConfigs changes some settings of a resource (KIP-339)."""

from coterie.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    IncrementalAlterConfigsResponseResource,
)
from coterie.server.config.changes import alter_each
from coterie.server.config.resources import Change, Resource
from coterie.server.handlers.topic_changes import answer_with_change
from coterie.server.logs.topic_changes import Change as TopicChange
from coterie.server.network.delayed_response import Exchange
from coterie.server.services import Services


def handle(
    broker: Services, request: IncrementalAlterConfigsRequest, connection: Exchange
) -> IncrementalAlterConfigsResponse | None:
    """Change each resource, or only check whether it could be changed."""
    return answer_with_change(broker, connection, _alter_all(broker, request))


def _alter_all(
    broker: Services, request: IncrementalAlterConfigsRequest
) -> TopicChange[IncrementalAlterConfigsResponse]:
    resources = [
        Resource(
            each.resource_type,
            each.resource_name,
            [Change(config.name, config.config_operation, config.value) for config in each.configs],
        )
        for each in request.resources
    ]
    outcomes = yield from alter_each(
        broker, resources, replace=False, only_check=request.validate_only
    )
    return IncrementalAlterConfigsResponse(
        responses=[
            IncrementalAlterConfigsResponseResource(
                error_code=error,
                error_message=text,
                resource_type=each.resource_type,
                resource_name=each.resource_name,
            )
            for each, (error, text) in zip(resources, outcomes, strict=True)
        ]
    )
