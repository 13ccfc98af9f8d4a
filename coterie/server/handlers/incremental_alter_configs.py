"""IncrementalAlterConfigs changes some settings of a resource (KIP-339)."""

from coterie.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    IncrementalAlterConfigsResponseResource,
)
from coterie.server.config.changes import alter_each
from coterie.server.config.resources import Change, Outcome, Resource
from coterie.server.handlers.topic_changes import answer_with_change
from coterie.server.logs.topic_changes import Change as TopicChange
from coterie.server.network.delayed_response import Exchange
from coterie.server.network.sliced_response import made_in_steps
from coterie.server.services import Services


def handle(
    broker: Services, request: IncrementalAlterConfigsRequest, connection: Exchange
) -> IncrementalAlterConfigsResponse | None:
    """Change each resource, or only check whether it could be changed."""
    return answer_with_change(broker, connection, _alter_all(broker, request))


def _alter_all(
    broker: Services, request: IncrementalAlterConfigsRequest
) -> TopicChange[IncrementalAlterConfigsResponse]:
    resources = []
    for each in request.resources:
        changes = yield from made_in_steps(
            lambda config: Change(config.name, config.config_operation, config.value), each.configs
        )
        resources.append(Resource(each.resource_type, each.resource_name, changes))
        yield None
    outcomes = yield from alter_each(
        broker, resources, replace=False, only_check=request.validate_only
    )
    responses = yield from made_in_steps(_response, zip(resources, outcomes, strict=True))
    return IncrementalAlterConfigsResponse(responses=responses)


def _response(altered: tuple[Resource, Outcome]) -> IncrementalAlterConfigsResponseResource:
    resource, (error, text) = altered
    return IncrementalAlterConfigsResponseResource(
        error_code=error,
        error_message=text,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
