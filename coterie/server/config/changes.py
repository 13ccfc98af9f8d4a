"""Changing settings while the server runs: AlterConfigs and IncrementalAlterConfigs (KIP-339).

The checks, their order and their texts are Kafka's [settings/alter-checks]. The new values of a
resource are worked out and checked completely before any of them is applied.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.incremental_alter_configs import APPEND, DELETE, SET, SUBTRACT
from coterie.server.config.kafka_keys import find_key
from coterie.server.config.keys import ConfigKey, ConfigType, InvalidValue, UpdateMode
from coterie.server.config.topic_keys import TOPIC, check_compaction_lags, check_topic_value
from coterie.server.logs.topic_changes import Change as TopicChange
from coterie.server.logs.topic_rules import invalid_name
from coterie.server.services import Services
from coterie.storage.errors import describe_error

TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4
BROKER_LOGGER_RESOURCE = 8
CLIENT_METRICS_RESOURCE = 16
GROUP_RESOURCE = 32

# Altered settings of the broker, and of the cluster: unknown names are accepted as well, and all
# are kept in memory and in the settings file.
MAX_ALTERED_SETTINGS = 1_000
MAX_ALTERED_CHARACTERS = 1024 * 1024
# The message of an error.
MAX_TEXT_CHARACTERS = 2_000

_INTEGER = re.compile(r"[+-]?[0-9]{1,10}")
_OPERATIONS = {SET: "SET", DELETE: "DELETE", APPEND: "APPEND", SUBTRACT: "SUBTRACT"}

# Kafka lets these be altered for a listener only, with the prefix `listener.name.NAME.`.
_ONLY_OF_LISTENERS = ("ssl.key.password", "ssl.keystore.", "ssl.truststore.")


class ChangeRefused(Exception):  # noqa: N818 - a refusal is an answer, not a failure of the server
    """A resource is not changed.

    Attributes:
        error: Kafka's error code.
        text: Kafka's message; None where Kafka sends none.
    """

    def __init__(self, error: ErrorCode, text: str | None) -> None:
        super().__init__(error, text)
        self.error = error
        # Names and values in the text come from the client and may fill a whole string.
        self.text = None if text is None else text[:MAX_TEXT_CHARACTERS]


class Change(NamedTuple):
    """One setting to change: an operation of IncrementalAlterConfigs, and its value if any."""

    name: str
    operation: int
    value: str | None


class Resource(NamedTuple):
    """A resource of a request, and the changes of its settings."""

    resource_type: int
    resource_name: str
    changes: list[Change]


# The result of one resource: its error, and the text for the client.
Outcome = tuple[ErrorCode, str | None]


def alter_each(
    broker: Services, resources: list[Resource], *, replace: bool, only_check: bool
) -> TopicChange[list[Outcome]]:
    """Change every resource of a request, or only check whether it could be changed.

    Args:
        broker: the broker whose settings are changed.
        resources: in the order of the request; one that is named twice is changed by neither.
        replace: whether settings that are not named return to their default.
        only_check: change nothing.
    """
    times = Counter((each.resource_type, each.resource_name) for each in resources)
    outcomes: list[Outcome] = []
    for each in resources:
        yield None
        if times[each.resource_type, each.resource_name] > 1:
            text = "Each resource must appear at most once."
            outcomes.append((ErrorCode.INVALID_REQUEST, text))
            continue
        try:
            yield from _alter(broker, each, replace=replace, only_check=only_check)
        except ChangeRefused as refused:
            outcomes.append((refused.error, refused.text))
        else:
            outcomes.append((ErrorCode.NONE, None))
    return outcomes


def set_all(values: Iterable[tuple[str, str | None]]) -> list[Change]:
    """Return the changes of an AlterConfigs, which names every setting that a resource has."""
    return [Change(name, SET, value) for name, value in values]


def _alter(
    broker: Services, resource: Resource, *, replace: bool, only_check: bool
) -> TopicChange[None]:
    """Change the settings of one resource, or raise ChangeRefused and change nothing."""
    resource_type, name, changes = resource
    if len({change.name for change in changes}) < len(changes):
        raise ChangeRefused(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    for change in changes:
        if change.value is None and change.operation != DELETE:
            text = f"Null value not supported for : {change.name}"
            raise ChangeRefused(ErrorCode.INVALID_REQUEST, text)
    if resource_type == TOPIC_RESOURCE:
        yield from _alter_topic(broker, name, changes, replace=replace, only_check=only_check)
    elif resource_type == BROKER_RESOURCE:
        yield from _alter_broker(broker, name, changes, replace=replace, only_check=only_check)
    elif resource_type == GROUP_RESOURCE:
        _refuse_group(name, changes)
    else:
        text = f"Unknown resource type {resource_type}"
        raise ChangeRefused(ErrorCode.INVALID_REQUEST, text)


def _alter_topic(
    broker: Services, name: str, changes: list[Change], *, replace: bool, only_check: bool
) -> TopicChange[None]:
    if not name:
        text = "Default topic resources are not allowed."
        raise ChangeRefused(ErrorCode.INVALID_REQUEST, text)
    invalid = invalid_name(name)
    if invalid is not None:
        raise ChangeRefused(ErrorCode.INVALID_TOPIC_EXCEPTION, invalid)
    topic = broker.topics.by_name.get(name)
    if topic is None:
        text = f"The topic '{name}' does not exist."
        raise ChangeRefused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
    values = {} if replace else dict(topic.config.overrides)
    for change in changes:
        key = TOPIC.get(change.name)
        if change.operation not in _OPERATIONS:
            raise ChangeRefused(ErrorCode.UNKNOWN_SERVER_ERROR, None)
        if change.operation in (APPEND, SUBTRACT) and (
            key is None or key.type is not ConfigType.LIST
        ):
            verb = _OPERATIONS[change.operation]
            text = f"Can't {verb} to key {change.name} because its type is not LIST."
            raise ChangeRefused(ErrorCode.INVALID_CONFIG, text)
        if key is None and change.operation == SET:
            text = f"Unknown topic config name: {change.name}"
            raise ChangeRefused(ErrorCode.INVALID_CONFIG, text)
        _apply(values, change, key)
    try:
        for changed in values.keys() & {change.name for change in changes}:
            check_topic_value(changed, values[changed])
        check_compaction_lags(values)
    except InvalidValue as error:
        raise ChangeRefused(ErrorCode.INVALID_CONFIG, str(error)) from None
    if not only_check:
        yield from _store(broker.topics.new_overrides(topic, values, broker.changes.on_disk))


def _alter_broker(
    broker: Services, name: str, changes: list[Change], *, replace: bool, only_check: bool
) -> TopicChange[None]:
    """Change the settings of this broker, or those of the cluster if `name` is empty."""
    if name:
        _check_node_id(broker, name)
    config = broker.config
    before = config.altered if name else config.cluster_defaults
    values = {} if replace else dict(before)
    for change in changes:
        key = find_key(change.name)
        if change.operation not in _OPERATIONS:
            text = f"Unknown operations type {change.operation}"
            raise ChangeRefused(ErrorCode.INVALID_REQUEST, text)
        if change.operation in (APPEND, SUBTRACT):
            if key is None:
                text = f"Unknown config name: {change.name}"
                raise ChangeRefused(ErrorCode.INVALID_CONFIG, text)
            if key.type is not ConfigType.LIST:
                verb = _OPERATIONS[change.operation].lower()
                text = f"Config value {verb} is not allowed for config key: {change.name}"
                raise ChangeRefused(ErrorCode.INVALID_CONFIG, text)
        _apply(values, change, key)
    changed = [change.name for change in changes if change.name in values]
    _check_broker_values(changed, values, of_cluster=not name)
    characters = sum(len(each) + len(value) for each, value in values.items())
    if len(values) > MAX_ALTERED_SETTINGS or characters > MAX_ALTERED_CHARACTERS:
        text = (
            f"At most {MAX_ALTERED_SETTINGS} settings of {MAX_ALTERED_CHARACTERS} characters may be"
            " altered."
        )
        raise ChangeRefused(ErrorCode.POLICY_VIOLATION, text)
    if not only_check:
        altered, cluster = (values, config.cluster_defaults) if name else (config.altered, values)
        yield from _store(
            broker.topics.new_broker_settings(altered, cluster, broker.changes.on_disk)
        )


def _store(change: TopicChange[None]) -> TopicChange[None]:
    """Make a change that is stored in a file."""
    try:
        yield from change
    except OSError as error:
        raise ChangeRefused(ErrorCode.KAFKA_STORAGE_ERROR, describe_error(error)) from error


def parse_node_id(name: str) -> int | None:
    """Return the node id that a resource's name is; None if it is not an integer as in Java."""
    return int(name) if _INTEGER.fullmatch(name) else None


def _check_node_id(broker: Services, name: str) -> None:
    node_id = parse_node_id(name)
    if node_id is None:
        text = f"Node id must be an integer, but it is: {name}"
        raise ChangeRefused(ErrorCode.INVALID_REQUEST, text)
    if node_id != broker.node_id:
        text = f"Unexpected broker id, expected {broker.node_id}, but received {name}"
        raise ChangeRefused(ErrorCode.INVALID_REQUEST, text)


def _check_broker_values(names: list[str], values: Mapping[str, str], *, of_cluster: bool) -> None:
    """Check the settings that were changed. Unknown names are accepted, as in Kafka."""
    keys = {name: key for name in names if (key := find_key(name)) is not None}
    fixed = [
        name
        for name, key in keys.items()
        if key.update is UpdateMode.READ_ONLY and not name.startswith("listener.name.")
    ]
    _refuse_names(fixed, "Cannot update these configs dynamically")
    _refuse_names(
        [name for name in keys if name.startswith(_ONLY_OF_LISTENERS)],
        "These security configs can be dynamically updated only per-listener using the listener"
        " prefix",
    )
    for name, key in keys.items():
        try:
            key.parse(values[name])
        except InvalidValue as error:
            raise ChangeRefused(ErrorCode.INVALID_REQUEST, str(error)) from None
    if of_cluster:
        _refuse_names(
            [name for name, key in keys.items() if key.update is UpdateMode.PER_BROKER],
            "Cannot update these configs at default cluster level, broker id must be specified",
        )


def _refuse_names(names: list[str], reason: str) -> None:
    if names:
        raise ChangeRefused(ErrorCode.INVALID_REQUEST, f"{reason}: [{', '.join(names)}]")


def _refuse_group(name: str, changes: list[Change]) -> None:
    """Refuse to set a group's settings, which belong to protocols that are not served (KIP-848)."""
    if not name:
        text = "Default group resources are not allowed."
        raise ChangeRefused(ErrorCode.INVALID_REQUEST, text)
    for change in changes:
        if change.operation != DELETE:
            text = f"Unknown group config name: {change.name}"
            raise ChangeRefused(ErrorCode.INVALID_CONFIG, text)


def _apply(values: dict[str, str], change: Change, key: ConfigKey | None) -> None:
    """Make one change in `values`; the result is not checked."""
    if change.operation == DELETE:
        values.pop(change.name, None)
        return
    text = change.value or ""
    if change.operation in (APPEND, SUBTRACT):
        # A list without a value of its own begins with the default, not with an inherited value.
        default = key.default if key is not None else None
        current = values.get(change.name, default or "")
        text = _changed_list(current, text, append=change.operation == APPEND)
    values[change.name] = text


def _changed_list(current: str, given: str, *, append: bool) -> str:
    """Return a list with elements added or removed. As in Kafka, blanks make elements differ."""
    elements = [element for element in current.split(",") if element]
    named = [element for element in given.split(",") if element]
    if append:
        elements += [element for element in named if element not in elements]
    else:
        elements = [element for element in elements if element not in named]
    return ",".join(elements)
