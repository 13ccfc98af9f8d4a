"""What requests about groups need, where the declaration does not say all [security/groups]."""

from collections.abc import Callable
from functools import partial
from typing import Any

from coterie.coordinator.groups.recorded.refusal import heartbeat_error
from coterie.protocol.authorized_operations import GROUP_OPERATIONS, AclOperation
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from coterie.protocol.messages.describe_groups import DescribeGroupsRequest
from coterie.protocol.messages.find_coordinator import FindCoordinatorRequest
from coterie.protocol.messages.list_groups import ListGroupsRequest
from coterie.protocol.messages.sync_group import SyncGroupRequest
from coterie.protocol.refusals import refused_elements, refused_part
from coterie.protocol.resources import ResourceType
from coterie.server.authorization.access import ClientAccess
from coterie.server.authorization.declared import Need, check_elements, check_whole
from coterie.server.authorization.outcome import (
    ERRORS,
    Allowed,
    Check,
    Handled,
    Outcome,
    answered,
    refused,
    text_of,
)
from coterie.server.cluster.image import CoordinatorType
from coterie.server.features import Features
from coterie.server.handlers import list_groups as listing
from coterie.server.handlers.group_requests import consumer_group_heartbeat as beat
from coterie.server.network.delayed_response import Exchange
from coterie.server.services import Services

_GROUP = ResourceType.GROUP
_READ = Need(0, _GROUP, AclOperation.READ, ("group_id",))
_DESCRIBED = Need(0, _GROUP, AclOperation.DESCRIBE, ("groups", ""))
_DESCRIBED_BY_ID = Need(0, _GROUP, AclOperation.DESCRIBE, ("group_ids", ""))
# From this version on a SyncGroup names its protocol, and one that does not is refused first.
_PROTOCOL_SINCE = 5
_MANY_KEYS_SINCE = 4
_SHARE_SINCE = 6
_KEYS = {
    CoordinatorType.GROUP: ResourceType.GROUP,
    CoordinatorType.TRANSACTION: ResourceType.TRANSACTIONAL_ID,
}
_HIDDEN_TOPICS = "The group has described topic(s) that the client is not authorized to describe."


def sync_group(
    _broker: Services, access: ClientAccess, request: SyncGroupRequest, connection: Exchange
) -> Outcome:
    """Ask for READ, unless the request itself is incomplete."""
    is_named = request.protocol_type is not None and request.protocol_name is not None
    if connection.version >= _PROTOCOL_SINCE and not is_named:
        return None
    return check_whole(access, request, connection, _READ)


def describe_groups(
    broker: Services, access: ClientAccess, request: DescribeGroupsRequest, connection: Exchange
) -> Outcome:
    """Ask for DESCRIBE on each group, and return its authorized operations."""
    request.groups = list(dict.fromkeys(request.groups))
    outcome = check_elements(broker, access, request, connection, _DESCRIBED)
    if not request.include_authorized_operations:
        return outcome

    def complete(response: Any) -> Any:
        _set_operations(access, response.groups)
        return response if outcome is None else outcome.complete(response)

    return Allowed(complete)


def _set_operations(access: ClientAccess, groups: list[Any]) -> None:
    for group in groups:
        if not group.error_code:
            group.authorized_operations = access.bits(_GROUP, group.group_id, GROUP_OPERATIONS)


def list_groups(
    _broker: Services, access: ClientAccess, _request: ListGroupsRequest, _connection: Exchange
) -> Outcome:
    """List all groups with DESCRIBE on the cluster, or else those with DESCRIBE."""
    if access.may_quietly(AclOperation.DESCRIBE, ResourceType.CLUSTER):
        return None
    return Handled(
        partial(
            listing.handle,
            may_see=lambda group_id: access.may_quietly(AclOperation.DESCRIBE, _GROUP, group_id),
        )
    )


def find_coordinator(
    _broker: Services, access: ClientAccess, request: FindCoordinatorRequest, connection: Exchange
) -> Outcome:
    """Ask for DESCRIBE on each key."""
    version, key_type = connection.version, request.key_type
    keys = request.coordinator_keys if version >= _MANY_KEYS_SINCE else [request.key]
    if key_type == CoordinatorType.SHARE and version >= _SHARE_SINCE:
        kind = ResourceType.CLUSTER
        denied = set() if access.may_with_cluster(AclOperation.CLUSTER_ACTION) else set(keys)
    elif key_type in _KEYS:
        kind = _KEYS[CoordinatorType(key_type)]
        denied = {key for key in set(keys) if not access.may(AclOperation.DESCRIBE, kind, key)}
    else:
        return None
    if not denied:
        return None
    error = ERRORS[kind]
    nowhere: dict[str, Any] = {
        "node_id": -1,
        "host": "",
        "port": -1,
        "error_message": text_of(error),
    }
    if version < _MANY_KEYS_SINCE:
        return refused(request, error, version, **nowhere)
    # As in Kafka, where only the old versions have the text.
    nowhere["error_message"] = ""
    field, parts = refused_elements(
        request, [key for key in keys if key in denied], error, version, **nowhere
    )
    if len(parts) == len(keys):
        return refused(request, error, version, **nowhere)
    by_key = {part.key: part for part in parts}
    request.coordinator_keys = [key for key in keys if key not in denied]

    def complete(response: Any) -> Any:
        found = iter(getattr(response, field))
        setattr(response, field, [by_key[key] if key in by_key else next(found) for key in keys])
        return response

    return Allowed(complete)


def consumer_group_heartbeat(
    broker: Services,
    access: ClientAccess,
    request: ConsumerGroupHeartbeatRequest,
    _connection: Exchange,
) -> Outcome:
    """Ask for READ, and for DESCRIBE on every topic that the member subscribes to by its name."""
    if not broker.features.serves_consumer_groups:
        return None
    if not access.may(AclOperation.READ, _GROUP, request.group_id):
        return answered(heartbeat_error(request, ErrorCode.GROUP_AUTHORIZATION_FAILED))
    for name in set(request.subscribed_topic_names or ()):
        if not access.may(AclOperation.DESCRIBE, ResourceType.TOPIC, name):
            return answered(heartbeat_error(request, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    return Handled(partial(_heartbeat, access))


def _heartbeat(
    access: ClientAccess,
    broker: Services,
    request: ConsumerGroupHeartbeatRequest,
    connection: Exchange,
) -> Any:
    """Handle a heartbeat; if it begins to match regular expressions, then with what it may see."""
    coordinator, group_id = broker.coordinator, request.group_id
    before = coordinator.resolution(group_id)

    def handled() -> None:
        resolution = coordinator.resolution(group_id)
        if resolution is not None and resolution is not before:
            resolution.keep(
                lambda name: access.may_quietly(AclOperation.DESCRIBE, ResourceType.TOPIC, name)
            )

    return beat(broker, request, connection, handled)


def describe_by_id(is_served: Callable[[Features], bool]) -> Check:
    """Return the check of a description: DESCRIBE on each group, and on every topic in it.

    Its request has `group_ids`, of which each counts once.

    Args:
        is_served: whether the type of groups is switched on; otherwise nothing is asked for.
    """

    def check(
        broker: Services, access: ClientAccess, request: Any, connection: Exchange
    ) -> Outcome:
        request.group_ids = list(dict.fromkeys(request.group_ids))
        if not is_served(broker.features):
            return None
        outcome = check_elements(broker, access, request, connection, _DESCRIBED_BY_ID)

        def complete(response: Any) -> Any:
            response.groups = [
                each if _may_see(access, each) else _hidden(each) for each in response.groups
            ]
            if request.include_authorized_operations:
                _set_operations(access, response.groups)
            return response if outcome is None else outcome.complete(response)

        return Allowed(complete)

    return check


def _hidden(group: Any) -> Any:
    """Return what stands in the place of a group with topics that a client may not see."""
    error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return refused_part(type(group), group.group_id, error, error_message=_HIDDEN_TOPICS)


def _may_see(access: ClientAccess, group: Any) -> bool:
    """Return whether a client may see each topic in a described group."""
    names = _topics_of(group)
    return all(
        access.may(AclOperation.DESCRIBE, ResourceType.TOPIC, name) for name in sorted(names)
    )


def _topics_of(group: Any) -> set[str]:
    """Return the topics in a described group: those of a topology, or those that members have."""
    topology = getattr(group, "topology", None)
    if topology is not None:
        return {
            name
            for each in topology.subtopologies or ()
            for name in (
                *each.source_topics,
                *each.repartition_sink_topics,
                *(topic.name for topic in each.repartition_source_topics),
                *(topic.name for topic in each.state_changelog_topics),
            )
        }
    return {
        each.topic_name
        for member in group.members
        for assignment in (member.assignment, getattr(member, "target_assignment", None))
        for each in getattr(assignment, "topic_partitions", ())
    }
