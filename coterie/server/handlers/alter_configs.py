"""AlterConfigs replaces all settings of a resource (KIP-133)."""

from coterie.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    AlterConfigsResponseResource,
)
from coterie.server.config.changes import alter_each, set_all
from coterie.server.config.resources import Resource
from coterie.server.handlers.topic_changes import answer_with_change
from coterie.server.logs.topic_changes import Change as TopicChange
from coterie.server.network.delayed_response import Exchange
from coterie.server.services import Services


def handle(
    broker: Services, request: AlterConfigsRequest, connection: Exchange
) -> AlterConfigsResponse | None:
    """Change each resource, or only check whether it could be changed."""
    return answer_with_change(broker, connection, _alter_all(broker, request))


def _alter_all(broker: Services, request: AlterConfigsRequest) -> TopicChange[AlterConfigsResponse]:
    resources = [
        Resource(
            each.resource_type,
            each.resource_name,
            set_all((config.name, config.value) for config in each.configs),
        )
        for each in request.resources
    ]
    outcomes = yield from alter_each(
        broker, resources, replace=True, only_check=request.validate_only
    )
    return AlterConfigsResponse(
        responses=[
            AlterConfigsResponseResource(
                error_code=error,
                error_message=text,
                resource_type=each.resource_type,
                resource_name=each.resource_name,
            )
            for each, (error, text) in zip(resources, outcomes, strict=True)
        ]
    )
