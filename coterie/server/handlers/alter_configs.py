"""AlterConfigs replaces all settings of a resource (KIP-133)."""

from coterie.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    AlterConfigsResponseResource,
)
from coterie.protocol.messages.incremental_alter_configs import SET
from coterie.server.config.resources import Change
from coterie.server.handlers.altered_resources import alter_resources
from coterie.server.handlers.topic_changes import answer_with_change
from coterie.server.metadata.topic_changes import Change as TopicChange
from coterie.server.network.delayed_response import Exchange
from coterie.server.services import Services


def handle(
    broker: Services, request: AlterConfigsRequest, connection: Exchange
) -> AlterConfigsResponse | None:
    """Change each resource, or only check whether it could be changed."""
    return answer_with_change(broker, connection, _alter_all(broker, request))


def _alter_all(broker: Services, request: AlterConfigsRequest) -> TopicChange[AlterConfigsResponse]:
    # The request names every setting that a resource has.
    responses = yield from alter_resources(
        broker,
        request,
        lambda config: Change(config.name, SET, config.value),
        AlterConfigsResponseResource,
        replace=True,
    )
    return AlterConfigsResponse(responses=responses)
