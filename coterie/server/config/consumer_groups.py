"""The settings of consumer groups: what is checked at the start, and what a group has.

[settings/groups]
"""

from collections.abc import Mapping

from coterie.coordinator.groups.config import (
    ConsumerGroupConfig,
    ConsumerSettings,
    ConsumerSettingsTable,
)
from coterie.server.config.group_bounds import (
    ASSIGNMENT,
    HEARTBEAT,
    SESSION,
    Settings,
    bounded,
    check_bounds,
)
from coterie.server.config.keys import InvalidValue

# What a group may have for itself, in the order of `ConsumerSettings`.
_OF_GROUPS = (SESSION, HEARTBEAT, ASSIGNMENT)
_ASSIGNORS = ("uniform", "range")
_POLICIES = ("bidirectional", "upgrade", "downgrade", "disabled")


def check_consumer_groups(broker: Settings) -> None:
    """Check the settings of the broker, as Kafka does when it starts.

    Raises:
        InvalidValue: a value is out of bounds, or contradicts another.
    """
    check_bounds(broker, "consumer", _OF_GROUPS)
    assignors = broker.get_list("group.consumer.assignors")
    if not assignors or len(set(assignors)) < len(assignors):
        raise InvalidValue("group.consumer.assignors must name assignors, each of them once")
    for each in assignors:
        if each not in _ASSIGNORS:
            raise InvalidValue(
                f"group.consumer.assignors: {each} is not an assignor of this broker; it has "
                f"{' and '.join(_ASSIGNORS)}. Classes of Java cannot be loaded"
            )
    policy = _policy(broker)
    if policy not in _POLICIES:
        raise InvalidValue(
            f"group.consumer.migration.policy={policy} is none of {', '.join(_POLICIES)}"
        )


def consumer_group_config(broker: Settings, table: ConsumerSettingsTable) -> ConsumerGroupConfig:
    """Return the settings of consumer groups, with those that a group may have for itself."""
    return ConsumerGroupConfig(
        max_size=broker.get_int("group.consumer.max.size"),
        assignors=broker.get_list("group.consumer.assignors"),
        migration_policy=_policy(broker),
        regex_refresh_interval_ms=broker.get_int("group.consumer.regex.refresh.interval.ms"),
        settings=table,
    )


def _policy(broker: Settings) -> str:
    return (broker.get_text("group.consumer.migration.policy") or "").lower()


def consumer_settings(broker: Settings, values: Mapping[str, str]) -> ConsumerSettings:
    """Return the settings of a group; what is beyond the present bounds is cut.

    Args:
        broker: the settings of the broker.
        values: those of the group.
    """
    return ConsumerSettings(*bounded(broker, "consumer", _OF_GROUPS, values))
