"""Changing settings while the server runs: AlterConfigs and IncrementalAlterConfigs (KIP-339).

The checks, their order and their texts are Kafka's [settings/alter-checks]. The new values of a
resource are worked out and checked completely before any of them is applied.
"""

import re
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.incremental_alter_configs import APPEND, DELETE, SUBTRACT
from coterie.server.config.address_limits import address_limits
from coterie.server.config.broker_keys import CREATION_RATE, MAX_CONNECTIONS, PER_IP_OVERRIDES
from coterie.server.config.config import MIN_INSYNC_REPLICAS, Config
from coterie.server.config.controller_changes import (
    alter_client_metrics,
    alter_group,
    alter_topic,
)
from coterie.server.config.kafka_keys import find_key, listener_base
from coterie.server.config.keys import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    ConfigType,
    InvalidValue,
    UpdateMode,
)
from coterie.server.config.listeners import prefix_of
from coterie.server.config.resources import (
    OPERATIONS,
    Change,
    ChangeRefused,
    Outcome,
    Resource,
    apply,
    check_size,
    store,
)
from coterie.server.config.sources import ConfigError
from coterie.server.config.thread_counts import check_thread_counts
from coterie.server.loggers import LEVELS, ROOT
from coterie.server.metadata.settings_file import Alterations
from coterie.server.metadata.topic_changes import Change as TopicChange
from coterie.server.services import Services

if TYPE_CHECKING:
    from coterie.server.tls.certificates import ListenerCertificates

_INTEGER = r"[+-]?[0-9]{1,10}"
_OF_CONTROLLER = {
    TOPIC_RESOURCE: alter_topic,
    GROUP_RESOURCE: alter_group,
    CLIENT_METRICS_RESOURCE: alter_client_metrics,
}

# Kafka lets the settings of one listener be altered for a broker only, except these.
_OF_ALL_LISTENERS = (CREATION_RATE, MAX_CONNECTIONS, "num.network.threads")
# Kafka lets these be altered for a listener only, with the prefix `listener.name.NAME.`.
_ONLY_OF_LISTENERS = ("ssl.key.password", "ssl.keystore.", "ssl.truststore.")


def alter_each(
    broker: Services, resources: list[Resource], *, replace: bool, only_check: bool
) -> TopicChange[list[Outcome]]:
    """Change every resource of a request, or only check whether it could be changed.

    What is stored of them is written at once, as Kafka's controller writes it [settings/one-write].

    Args:
        broker: the broker whose settings are changed.
        resources: in the order of the request; one that is named twice is changed by neither.
        replace: whether settings that are not named return to their default.
        only_check: change nothing.
    """
    times = Counter((each.resource_type, each.resource_name) for each in resources)
    outcomes: list[Outcome] = []
    altered = Alterations()
    for each in resources:
        yield None
        if times[each.resource_type, each.resource_name] > 1:
            text = "Each resource must appear at most once."
            outcomes.append((ErrorCode.INVALID_REQUEST, text))
            continue
        try:
            _alter(broker, altered, each, replace=replace, only_check=only_check)
        except ChangeRefused as refused:
            outcomes.append((refused.error, refused.text))
        else:
            outcomes.append((ErrorCode.NONE, None))
    if altered and not only_check:
        try:
            yield from store(broker.controller.alter(altered))
        except ChangeRefused as refused:
            # Levels of loggers are not stored.
            for index, each in enumerate(resources):
                if not outcomes[index][0] and each.resource_type != BROKER_LOGGER_RESOURCE:
                    outcomes[index] = refused.error, refused.text
        else:
            for each, (error, _) in zip(resources, outcomes, strict=True):
                for listener in _reloaded(broker, each) if not error else ():
                    listener.use_prepared()
    return outcomes


def _reloaded(broker: Services, resource: Resource) -> "list[ListenerCertificates]":
    """Return the listeners whose keys and certificates a change is about [security/reload]."""
    if resource.resource_type != BROKER_RESOURCE:
        return []
    names = [change.name for change in resource.changes]
    return [
        listener
        for listener in broker.tls_listeners
        if any(name.startswith(f"{prefix_of(listener.listener.name)}ssl.") for name in names)
    ]


def _alter(
    broker: Services,
    altered: Alterations,
    resource: Resource,
    *,
    replace: bool,
    only_check: bool,
) -> None:
    """Alter the settings of one resource, or raise ChangeRefused and alter nothing."""
    resource_type, name, changes = resource
    if len({change.name for change in changes}) < len(changes):
        raise ChangeRefused(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    nulls = [each.name for each in changes if each.value is None and each.operation != DELETE]
    if nulls:
        text = f"Null value not supported for : {', '.join(nulls)}"
        raise ChangeRefused(ErrorCode.INVALID_REQUEST, text)
    alter = _OF_CONTROLLER.get(resource_type)
    if alter is not None:
        alter(broker, altered, name, changes, replace=replace)
    elif resource_type == BROKER_RESOURCE:
        _alter_broker(broker, altered, name, changes, replace=replace)
    elif resource_type == BROKER_LOGGER_RESOURCE and not replace:
        _alter_loggers(broker, name, changes, only_check=only_check)
    else:
        text = f"Unknown resource type {resource_type}"
        raise ChangeRefused(ErrorCode.INVALID_REQUEST, text)


def _alter_broker(
    broker: Services, altered: Alterations, name: str, changes: list[Change], *, replace: bool
) -> None:
    """Alter the settings of this broker, or those of the cluster if `name` is empty."""
    if name:
        _check_node_id(broker, name)
    config = broker.config
    before = config.altered if name else config.cluster_defaults
    values = {} if replace else dict(before)
    for change in changes:
        key = find_key(change.name)
        if change.operation not in OPERATIONS:
            text = f"Unknown operations type {change.operation}"
            raise ChangeRefused(ErrorCode.INVALID_REQUEST, text)
        if change.operation in (APPEND, SUBTRACT):
            if key is None:
                text = f"Unknown config name: {change.name}"
                raise ChangeRefused(ErrorCode.INVALID_CONFIG, text)
            if key.type is not ConfigType.LIST:
                verb = OPERATIONS[change.operation].lower()
                text = f"Config value {verb} is not allowed for config key: {change.name}"
                raise ChangeRefused(ErrorCode.INVALID_CONFIG, text)
        apply(values, change, key)
    changed = [change.name for change in changes if change.name in values]
    _check_broker_values(changed, values, of_cluster=not name)
    try:
        check_thread_counts(config, values, of_cluster=not name)
    except InvalidValue as error:
        raise ChangeRefused(ErrorCode.INVALID_REQUEST, str(error)) from None
    if config.keeps_min_insync_replicas:
        _check_kept(config, changes, values, of_cluster=not name)
    check_size(values)
    if name:
        for listener in _reloaded(broker, Resource(BROKER_RESOURCE, name, changes)):
            try:
                listener.prepare(values)
            except ConfigError as error:
                raise ChangeRefused(ErrorCode.INVALID_REQUEST, str(error)) from None
        if broker.controller.config.is_first(broker.node_id):
            altered.broker = values
        else:
            altered.brokers[broker.node_id] = values
    else:
        altered.cluster = values


def parse_node_id(name: str) -> int | None:
    """Return the node id that a resource's name is; None if it is not an integer as in Java."""
    return int(name) if re.fullmatch(_INTEGER, name) else None


def _node_id(name: str) -> int:
    node_id = parse_node_id(name)
    if node_id is None:
        text = f"Node id must be an integer, but it is: {name}"
        raise ChangeRefused(ErrorCode.INVALID_REQUEST, text)
    return node_id


def _check_node_id(broker: Services, name: str) -> None:
    if _node_id(name) != broker.node_id:
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
            key._replace(name=listener_base(name) or name).parse(values[name])
            if name == PER_IP_OVERRIDES:
                address_limits(values[name])
        except InvalidValue as error:
            raise ChangeRefused(ErrorCode.INVALID_REQUEST, str(error)) from None
    if of_cluster:
        _refuse_names(
            [
                name
                for name, key in keys.items()
                if key.update is UpdateMode.PER_BROKER
                or listener_base(name) not in (None, *_OF_ALL_LISTENERS)
            ],
            "Cannot update these configs at default cluster level, broker id must be specified",
        )


def _check_kept(
    config: Config, changes: list[Change], values: Mapping[str, str], *, of_cluster: bool
) -> None:
    """Check that the cluster keeps the value that it has [settings/kept-for-the-cluster]."""
    name, text = MIN_INSYNC_REPLICAS, None
    if of_cluster:
        if name not in values:
            text = f"Cluster-level {name} cannot be removed while ELR is enabled."
    elif any(change.name == name for change in changes) or name in config.altered:
        text = f"Broker-level {name} cannot be altered while ELR is enabled."
    if text is not None:
        raise ChangeRefused(ErrorCode.INVALID_CONFIG, text)


def _refuse_names(names: list[str], reason: str) -> None:
    if names:
        raise ChangeRefused(ErrorCode.INVALID_REQUEST, f"{reason}: [{', '.join(names)}]")


def _alter_loggers(broker: Services, name: str, changes: list[Change], *, only_check: bool) -> None:
    """Change levels of loggers [settings/loggers]."""
    node_id = _node_id(name)
    if node_id != broker.node_id:
        text = f"Unexpected node id. Expected {broker.node_id}, but received {name}"
        raise ChangeRefused(ErrorCode.INVALID_REQUEST, text)
    loggers = broker.environment.loggers
    levels: dict[str, str | None] = {}
    for change in changes:
        logger = change.name
        if change.operation not in OPERATIONS:
            raise ChangeRefused(ErrorCode.UNKNOWN_SERVER_ERROR, None)
        if change.operation in (APPEND, SUBTRACT):
            verb = OPERATIONS[change.operation]
            text = f"{verb} operation is not allowed for the BROKER_LOGGER resource"
            raise ChangeRefused(ErrorCode.INVALID_REQUEST, text)
        if loggers.level(logger) is None:
            raise ChangeRefused(ErrorCode.INVALID_CONFIG, f"Logger {logger} does not exist!")
        if change.operation == DELETE:
            if logger == ROOT:
                text = "Removing the log level of the root logger is not allowed"
                raise ChangeRefused(ErrorCode.INVALID_REQUEST, text)
            levels[logger] = None
        elif change.value not in LEVELS:
            text = (
                f"Cannot set the log level of {logger} to {change.value} as it is not a supported"
                f" log level. Valid log levels are {', '.join(sorted(LEVELS))}"
            )
            raise ChangeRefused(ErrorCode.INVALID_CONFIG, text)
        else:
            levels[logger] = change.value
    if not only_check:
        loggers.set_levels(levels)
