"""Changing settings while the server runs: AlterConfigs and IncrementalAlterConfigs (KIP-339).

Checks and words are those of Kafka. A change is worked out completely before any of it is made.
"""

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.incremental_alter_configs import APPEND, DELETE, SET, SUBTRACT
from coterie.server.config.broker_keys import BROKER
from coterie.server.config.keys import ConfigKey, ConfigType, InvalidValue
from coterie.server.config.topic_keys import TOPIC

if TYPE_CHECKING:
    from coterie.server.broker import Broker

TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4
BROKER_LOGGER_RESOURCE = 8
CLIENT_METRICS_RESOURCE = 16
GROUP_RESOURCE = 32

_OPERATIONS = {SET: "SET", DELETE: "DELETE", APPEND: "APPEND", SUBTRACT: "SUBTRACT"}


class ChangeRefused(Exception):  # noqa: N818 - it says what became of the change
    """A change that is not made."""

    def __init__(self, error: ErrorCode, text: str | None) -> None:
        super().__init__(error, text)
        self.error = error
        self.text = text


class Change(NamedTuple):
    """One setting to change: an operation of IncrementalAlterConfigs, and its value if any."""

    name: str
    operation: int
    value: str | None


class Resource(NamedTuple):
    """A resource of a request, and what is to be changed of it."""

    resource_type: int
    resource_name: str
    changes: list[Change]


# What became of a resource: its error and the text for the client.
Outcome = tuple[ErrorCode, str | None]


def alter_each(
    broker: "Broker", resources: list[Resource], *, replace: bool, only_check: bool
) -> list[Outcome]:
    """Change every resource of a request, or only check whether it could be changed.

    Args:
        broker: whose settings.
        resources: in the order of the request; one that is named twice is changed by neither.
        replace: whether settings that are not named go back to their default.
        only_check: change nothing.
    """
    times = Counter((each.resource_type, each.resource_name) for each in resources)
    outcomes: list[Outcome] = []
    for each in resources:
        if times[each.resource_type, each.resource_name] > 1:
            text = "Each resource must appear at most once."
            outcomes.append((ErrorCode.INVALID_REQUEST, text))
            continue
        try:
            alter(broker, *each, replace=replace, only_check=only_check)
        except ChangeRefused as refused:
            outcomes.append((refused.error, refused.text))
        else:
            outcomes.append((ErrorCode.NONE, None))
    return outcomes


def alter(
    broker: "Broker",
    resource_type: int,
    resource_name: str,
    changes: list[Change],
    *,
    replace: bool,
    only_check: bool,
) -> None:
    """Change the settings of one resource.

    Args:
        broker: whose settings, or whose topic's.
        resource_type: one of the constants above.
        resource_name: a topic, or the broker's id.
        changes: what to change.
        replace: whether settings that are not named go back to their default.
        only_check: change nothing.

    Raises:
        ChangeRefused: nothing is changed.
    """
    if len({change.name for change in changes}) < len(changes):
        raise ChangeRefused(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    for change in changes:
        if change.operation not in _OPERATIONS:
            raise ChangeRefused(ErrorCode.UNKNOWN_SERVER_ERROR, None)
        if change.value is None and change.operation != DELETE:
            text = f"Null value not supported for : {change.name}"
            raise ChangeRefused(ErrorCode.INVALID_REQUEST, text)
    if resource_type == TOPIC_RESOURCE:
        _alter_topic(broker, resource_name, changes, replace=replace, only_check=only_check)
    elif resource_type == BROKER_RESOURCE:
        _alter_broker(broker, resource_name, changes, replace=replace, only_check=only_check)
    elif resource_type == GROUP_RESOURCE:
        _refuse_group(resource_name, changes)
    else:
        text = f"Unknown resource type {resource_type}"
        raise ChangeRefused(ErrorCode.INVALID_REQUEST, text)


def _alter_topic(
    broker: "Broker", name: str, changes: list[Change], *, replace: bool, only_check: bool
) -> None:
    if not name:
        text = "Default topic resources are not allowed."
        raise ChangeRefused(ErrorCode.INVALID_REQUEST, text)
    topic = broker.topics.by_name.get(name)
    if topic is None:
        text = f"The topic '{name}' does not exist."
        raise ChangeRefused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
    values = {} if replace else dict(topic.config.overrides)
    for change in changes:
        key = TOPIC.get(change.name)
        current = values.get(change.name)
        if current is None and key is not None:
            current = broker.config.topic_default(key)
        error = ErrorCode.INVALID_CONFIG
        _apply(
            values, change, key, current or "", error, f"Unknown topic config name: {change.name}"
        )
    if not only_check:
        broker.topics.set_overrides(topic, values)


def _alter_broker(
    broker: "Broker", name: str, changes: list[Change], *, replace: bool, only_check: bool
) -> None:
    if name and not name.isdigit():
        text = f"Node id must be an integer, but it is: {name}"
        raise ChangeRefused(ErrorCode.INVALID_REQUEST, text)
    if name and int(name) != broker.node_id:
        text = f"Unexpected broker id, expected {broker.node_id}, but received {name}"
        raise ChangeRefused(ErrorCode.INVALID_REQUEST, text)
    values = {} if replace else broker.config.altered
    for change in changes:
        key = BROKER.get(change.name)
        if key is not None and not key.dynamic:
            text = f"Cannot update these configs dynamically: [{change.name}]"
            raise ChangeRefused(ErrorCode.INVALID_REQUEST, text)
        # Kafka keeps settings it does not know; here an unknown one is a setting without effect.
        unknown = f"{change.name} is not a setting that this broker honours."
        current = broker.config.text(change.name) if key is not None else None
        _apply(values, change, key, current or "", ErrorCode.INVALID_REQUEST, unknown)
    if not only_check:
        broker.topics.set_broker_settings(values)


def _refuse_group(name: str, changes: list[Change]) -> None:
    """Settings of a group belong to the newer protocols (KIP-848), which are not served."""
    if not name:
        text = "Default group resources are not allowed."
        raise ChangeRefused(ErrorCode.INVALID_REQUEST, text)
    for change in changes:
        if change.operation != DELETE:
            text = f"Unknown group config name: {change.name}"
            raise ChangeRefused(ErrorCode.INVALID_CONFIG, text)


def _apply(
    values: dict[str, str],
    change: Change,
    key: ConfigKey | None,
    current: str,
    error: ErrorCode,
    unknown: str,
) -> None:
    """Make one change in `values`."""
    if change.operation == DELETE:
        values.pop(change.name, None)
        return
    if key is None:
        raise ChangeRefused(ErrorCode.INVALID_CONFIG, unknown)
    text = change.value or ""
    if change.operation in (APPEND, SUBTRACT):
        if key.type is not ConfigType.LIST:
            verb = _OPERATIONS[change.operation]
            text = f"Can't {verb} to key {change.name} because its type is not LIST."
            raise ChangeRefused(ErrorCode.INVALID_CONFIG, text)
        text = _changed_list(current, text, append=change.operation == APPEND)
    try:
        key.parse(text)
    except InvalidValue as invalid:
        raise ChangeRefused(error, str(invalid)) from None
    values[change.name] = text


def _changed_list(current: str, given: str, *, append: bool) -> str:
    items = [item for item in current.split(",") if item]
    named = [item for item in given.split(",") if item]
    if append:
        items += [item for item in named if item not in items]
    else:
        items = [item for item in items if item not in named]
    return ",".join(items)


def set_all(values: Mapping[str, str | None]) -> list[Change]:
    """The changes of an AlterConfigs, which names every setting a resource shall have."""
    return [Change(name, SET, value) for name, value in values.items()]
