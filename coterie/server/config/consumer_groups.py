"""The settings of consumer groups: what is checked at the start, and what a group has.

[settings/consumer-groups]
"""

from collections.abc import Mapping
from typing import Protocol

from coterie.coordinator.groups.config import (
    ConsumerGroupConfig,
    ConsumerSettings,
    ConsumerSettingsTable,
)
from coterie.server.config.keys import InvalidValue

_SESSION, _HEARTBEAT = "session.timeout.ms", "heartbeat.interval.ms"
# What a group may have for itself, in the order of `ConsumerSettings`.
_OF_GROUPS = (_SESSION, _HEARTBEAT, "assignment.interval.ms")
_ASSIGNORS = ("uniform", "range")
_POLICIES = ("bidirectional", "upgrade", "downgrade", "disabled")


class Settings(Protocol):
    """The settings of the broker that have an effect."""

    def get_int(self, name: str) -> int:
        """Return the value of a whole number."""

    def get_text(self, name: str) -> str | None:
        """Return a text; None if it is not set."""

    def get_list(self, name: str) -> tuple[str, ...]:
        """Return the elements of a list; none if the list is not set."""


def check_consumer_groups(broker: Settings) -> None:
    """Check the settings of the broker, as Kafka does when it starts.

    Raises:
        InvalidValue: a value is out of bounds, or contradicts another.
    """
    for rest in _OF_GROUPS:
        name, low, high = (f"group.consumer.{bound}{rest}" for bound in ("", "min.", "max."))
        value, lowest, highest = (broker.get_int(each) for each in (name, low, high))
        if not lowest <= value <= highest:
            raise InvalidValue(f"{name}={value} is not between {low}={lowest} and {high}={highest}")
    session, heartbeat = f"group.consumer.{_SESSION}", f"group.consumer.{_HEARTBEAT}"
    if broker.get_int(heartbeat) >= broker.get_int(session):
        raise InvalidValue(f"{heartbeat} must be less than {session}")
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
    found = []
    for rest in _OF_GROUPS:
        text = values.get(f"consumer.{rest}")
        value = broker.get_int(f"group.consumer.{rest}") if text is None else int(text)
        lowest = broker.get_int(f"group.consumer.min.{rest}")
        highest = broker.get_int(f"group.consumer.max.{rest}")
        found.append(min(max(value, lowest), highest))
    return ConsumerSettings(*found)
