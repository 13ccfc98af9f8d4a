"""The settings of share groups: what is checked at the start, and what a group has.

[settings/groups]
"""

from collections.abc import Mapping

from coterie.coordinator.groups.config import (
    SHARE_ASSIGNOR,
    ShareGroupConfig,
    ShareSettings,
    ShareSettingsTable,
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

# What a group may have for itself, in the order of `ShareSettings`.
_OF_GROUPS = (SESSION, HEARTBEAT, ASSIGNMENT)


def check_share_groups(broker: Settings) -> None:
    """Check the settings of the broker, as Kafka does when it starts.

    Raises:
        InvalidValue: a value is out of bounds, or contradicts another.
    """
    check_bounds(broker, "share", _OF_GROUPS)
    assignors = broker.get_list("group.share.assignors")
    if list(assignors) != [SHARE_ASSIGNOR]:
        raise InvalidValue(
            f"group.share.assignors must name one assignor, and this broker has {SHARE_ASSIGNOR}. "
            "Classes of Java cannot be loaded"
        )


def share_group_config(broker: Settings, table: ShareSettingsTable) -> ShareGroupConfig:
    """Return the settings of share groups, with those that a group may have for itself."""
    return ShareGroupConfig(
        max_size=broker.get_int("group.share.max.size"),
        initialize_retry_interval_ms=broker.get_int("group.share.initialize.retry.interval.ms"),
        settings=table,
    )


def share_settings(broker: Settings, values: Mapping[str, str]) -> ShareSettings:
    """Return the settings of a group; what is beyond the present bounds is cut.

    Args:
        broker: the settings of the broker.
        values: those of the group.
    """
    return ShareSettings(*bounded(broker, "share", _OF_GROUPS, values))
