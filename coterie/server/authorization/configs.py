"""What requests about settings need: each resource is of a type that has its own right."""

from typing import Any

from coterie.protocol.authorized_operations import AclOperation
from coterie.protocol.refusals import refused_elements
from coterie.protocol.resources import ResourceType
from coterie.security.acl import CLUSTER_NAME
from coterie.server.authorization.access import ClientAccess
from coterie.server.authorization.outcome import ERRORS, Allowed, Outcome, text_of
from coterie.server.config.keys import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
)
from coterie.server.network.delayed_response import Exchange
from coterie.server.services import Services

_KINDS = {
    TOPIC_RESOURCE: ResourceType.TOPIC,
    GROUP_RESOURCE: ResourceType.GROUP,
    BROKER_RESOURCE: ResourceType.CLUSTER,
    BROKER_LOGGER_RESOURCE: ResourceType.CLUSTER,
    CLIENT_METRICS_RESOURCE: ResourceType.CLUSTER,
}


def describe_configs(
    _broker: Services, access: ClientAccess, request: Any, connection: Exchange
) -> Outcome:
    """Ask for DESCRIBE_CONFIGS on each resource."""
    return _check(access, request, connection, AclOperation.DESCRIBE_CONFIGS)


def alter_configs(
    _broker: Services, access: ClientAccess, request: Any, connection: Exchange
) -> Outcome:
    """Ask for ALTER_CONFIGS on each resource."""
    return _check(access, request, connection, AclOperation.ALTER_CONFIGS)


def _check(
    access: ClientAccess, request: Any, connection: Exchange, operation: AclOperation
) -> Outcome:
    resources = request.resources
    if any(each.resource_type not in _KINDS for each in resources):
        # One resource of another type fails the whole request, or is refused by the handler.
        return None
    left: list[Any] = []
    parts: list[Any] = []
    for each in resources:
        kind = _KINDS[each.resource_type]
        name = CLUSTER_NAME if kind is ResourceType.CLUSTER else each.resource_name
        if access.may(operation, kind, name):
            left.append(each)
        else:
            error = ERRORS[kind]
            text = None if _has_no_text(each, operation) else text_of(error)
            _, made = refused_elements(
                request, [each], error, connection.version, error_message=text
            )
            parts += made
    if not parts:
        return None
    request.resources = left

    def complete(response: Any) -> Any:
        field = "results" if hasattr(response, "results") else "responses"
        setattr(response, field, getattr(response, field) + parts)
        return response

    return Allowed(complete)


def _has_no_text(resource: Any, operation: AclOperation) -> bool:
    """Return whether Kafka's refusal has no text: its broker alters loggers by itself."""
    return (
        operation is AclOperation.ALTER_CONFIGS and resource.resource_type == BROKER_LOGGER_RESOURCE
    )
