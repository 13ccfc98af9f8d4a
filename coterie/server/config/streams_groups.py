"""The settings of streams groups: what is checked at the start, and what a group has.

[settings/groups]
"""

from collections.abc import Mapping

from coterie.coordinator.groups.config import (
    StreamsGroupConfig,
    StreamsSettings,
    StreamsSettingsTable,
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

# What a group may have for itself, in the order of `StreamsSettings`. The other two have no bounds
# on both sides.
_OF_GROUPS = (SESSION, HEARTBEAT, ASSIGNMENT)
_REPLICAS, _DELAY = "streams.num.standby.replicas", "streams.initial.rebalance.delay.ms"
_MOST_REPLICAS = "group.streams.max.standby.replicas"


def check_streams_groups(broker: Settings) -> None:
    """Check the settings of the broker, as Kafka does when it starts.

    Raises:
        InvalidValue: a value is out of bounds, or contradicts another.
    """
    check_bounds(broker, "streams", _OF_GROUPS)
    name = f"group.{_REPLICAS}"
    replicas, most = broker.get_int(name), broker.get_int(_MOST_REPLICAS)
    if replicas > most:
        raise InvalidValue(f"{name}={replicas} is above {_MOST_REPLICAS}={most}")


def streams_group_config(broker: Settings, table: StreamsSettingsTable) -> StreamsGroupConfig:
    """Return the settings of streams groups, with those that a group may have for itself."""
    return StreamsGroupConfig(max_size=broker.get_int("group.streams.max.size"), settings=table)


def streams_settings(broker: Settings, values: Mapping[str, str]) -> StreamsSettings:
    """Return the settings of a group; what is beyond the present bounds is cut.

    Args:
        broker: the settings of the broker.
        values: those of the group.
    """
    session_ms, heartbeat_ms, assignment_ms = bounded(broker, "streams", _OF_GROUPS, values)
    replicas, delay_ms = (
        int(values[name]) if name in values else broker.get_int(f"group.{name}")
        for name in (_REPLICAS, _DELAY)
    )
    replicas = min(replicas, broker.get_int(_MOST_REPLICAS))
    return StreamsSettings(session_ms, heartbeat_ms, assignment_ms, replicas, delay_ms)
