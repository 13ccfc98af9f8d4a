"""Changes of the settings that Kafka's controller keeps: of topics, groups and client metrics.

Their operations are checked alike, and then the resulting values of the whole resource
[settings/alter-checks] (`ConfigurationControlManager`).
"""

from collections.abc import Mapping

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.incremental_alter_configs import APPEND, SUBTRACT
from coterie.server.config.client_metrics import (
    CLIENT_METRICS,
    InvalidInterval,
    TooManyStates,
    check_client_metrics_values,
    subscriptions,
)
from coterie.server.config.keys import (
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    ConfigKey,
    ConfigType,
    InvalidValue,
)
from coterie.server.config.resource_keys import GROUP, check_group_values
from coterie.server.config.resources import (
    OPERATIONS,
    Change,
    ChangeRefused,
    apply,
    check_size,
)
from coterie.server.config.topic_keys import TOPIC, check_compaction_lags, check_topic_value
from coterie.server.metadata.settings_file import Alterations
from coterie.server.metadata.topic_rules import invalid_name
from coterie.server.services import Services


def alter_topic(
    broker: Services, altered: Alterations, name: str, changes: list[Change], *, replace: bool
) -> None:
    """Alter the settings of a topic, or raise ChangeRefused and alter nothing."""
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
    values = _changed({} if replace else topic.config.overrides, changes, TOPIC)
    _refuse_unknown(values, TOPIC, ErrorCode.INVALID_CONFIG, "Unknown topic config name")
    try:
        for changed in values.keys() & {change.name for change in changes}:
            check_topic_value(changed, values[changed])
        check_compaction_lags(values)
    except InvalidValue as error:
        raise ChangeRefused(ErrorCode.INVALID_CONFIG, str(error)) from None
    altered.topics[topic] = values


def alter_group(
    broker: Services, altered: Alterations, name: str, changes: list[Change], *, replace: bool
) -> None:
    """Alter the settings of a group, or raise ChangeRefused and alter nothing."""
    if not name:
        text = "Default group resources are not allowed."
        raise ChangeRefused(ErrorCode.INVALID_REQUEST, text)
    before = {} if replace else _resources(broker, altered, GROUP_RESOURCE).get(name, {})
    values = _changed(before, changes, GROUP)
    _refuse_unknown(values, GROUP, ErrorCode.INVALID_CONFIG, "Unknown group config name")
    try:
        check_group_values(broker.config, values)
    except InvalidValue as error:
        raise ChangeRefused(ErrorCode.INVALID_CONFIG, str(error)) from None
    _keep(broker, altered, GROUP_RESOURCE, name, values)


def alter_client_metrics(
    broker: Services, altered: Alterations, name: str, changes: list[Change], *, replace: bool
) -> None:
    """Alter a subscription of client metrics, or raise ChangeRefused and alter nothing."""
    existing = _resources(broker, altered, CLIENT_METRICS_RESOURCE)
    before = {} if replace else existing.get(name, {})
    # Kafka's controller does not know the types of these settings, so it changes no list.
    values = _changed(before, changes, {})
    if not name:
        text = "Subscription name can't be empty"
        raise ChangeRefused(ErrorCode.INVALID_REQUEST, text)
    text = "Unknown client metrics configuration"
    _refuse_unknown(values, CLIENT_METRICS, ErrorCode.INVALID_REQUEST, text)
    try:
        check_client_metrics_values(values)
        subscriptions({**existing, name: values})
    except TooManyStates as excess:
        raise ChangeRefused(ErrorCode.POLICY_VIOLATION, str(excess)) from None
    except InvalidInterval as error:
        raise ChangeRefused(ErrorCode.INVALID_REQUEST, str(error)) from None
    except InvalidValue as refused:
        raise ChangeRefused(ErrorCode.INVALID_CONFIG, str(refused)) from None
    _keep(broker, altered, CLIENT_METRICS_RESOURCE, name, values)


def _changed(
    before: Mapping[str, str], changes: list[Change], keys: Mapping[str, ConfigKey]
) -> dict[str, str]:
    """Return the settings after the changes; the values are not checked."""
    values = dict(before)
    for change in changes:
        key = keys.get(change.name)
        if change.operation not in OPERATIONS:
            raise ChangeRefused(ErrorCode.UNKNOWN_SERVER_ERROR, None)
        if change.operation in (APPEND, SUBTRACT) and (
            key is None or key.type is not ConfigType.LIST
        ):
            verb = OPERATIONS[change.operation]
            text = f"Can't {verb} to key {change.name} because its type is not LIST."
            raise ChangeRefused(ErrorCode.INVALID_CONFIG, text)
        apply(values, change, key)
    return values


def _refuse_unknown(
    values: Mapping[str, str], keys: Mapping[str, ConfigKey], error: ErrorCode, text: str
) -> None:
    for name in values:
        if name not in keys:
            raise ChangeRefused(error, f"{text}: {name}")


def _resources(
    broker: Services, altered: Alterations, kind: int
) -> Mapping[str, Mapping[str, str]]:
    """Return the settings of a kind of resources, with those that the request alters."""
    return altered.resources.get(kind, broker.config.resources(kind))


def _keep(
    broker: Services, altered: Alterations, kind: int, name: str, values: dict[str, str]
) -> None:
    """Keep the settings of a group or of a subscription."""
    resources = dict(_resources(broker, altered, kind))
    resources.pop(name, None)
    if values:
        resources[name] = values
    check_size(
        {
            f"{each} {setting}": value
            for each, settings in resources.items()
            for setting, value in settings.items()
        }
    )
    altered.resources[kind] = resources
