"""The settings of a topic, `topic_settings.tsv`: every one that Kafka 4.3 has.

Test suites create topics with all kinds of settings, so all are accepted, checked, kept and shown.
The documentation of a setting without effect says so.
"""

import re
from collections.abc import Mapping

from coterie.server.config.keys import ConfigKey, InvalidValue
from coterie.server.config.tables import derived_keys

# Beats segment.bytes where it is set, and is shown only there. Tests of clients make small segments
# with it, since segment.bytes has a minimum of 1 MiB.
INTERNAL_SEGMENT_BYTES = "internal.segment.bytes"
_TABLE = derived_keys("topic_settings.tsv")
TOPIC: dict[str, ConfigKey] = {
    **_TABLE,
    INTERNAL_SEGMENT_BYTES: _TABLE[INTERNAL_SEGMENT_BYTES]._replace(is_listed=False),
}

_THROTTLED = ("follower.replication.throttled.replicas", "leader.replication.throttled.replicas")
_REPLICA = r"[0-9]+:[0-9]+"


def check_topic_value(name: str, text: str) -> None:
    """Check the value of a topic's setting, `name` being one.

    Raises:
        InvalidValue: the setting cannot have the value.
    """
    value = TOPIC[name].parse(text)
    if name in _THROTTLED and isinstance(value, tuple) and value not in ((), ("*",)):
        if not all(re.fullmatch(_REPLICA, element) for element in value):
            raise InvalidValue(
                f"Invalid value [{', '.join(value)}] for configuration {name}: {name} must be the"
                " literal '*' or a list of replicas in the following format:"
                " [partitionId]:[brokerId],[partitionId]:[brokerId],..."
            )
    elif name == "remote.storage.enable" and value:
        raise InvalidValue(
            "Tiered Storage functionality is disabled in the broker."
            " Topic cannot be configured with remote log storage."
        )


def check_compaction_lags(values: Mapping[str, str]) -> None:
    """Check the two compaction lags of a topic against each other.

    Args:
        values: the topic's own settings, each of them valid.

    Raises:
        InvalidValue: records would have to be compacted before they may be.
    """
    low, high = "min.compaction.lag.ms", "max.compaction.lag.ms"
    minimum, maximum = (int(values.get(name) or TOPIC[name].default or 0) for name in (low, high))
    if minimum > maximum:
        raise InvalidValue(f"conflict topic config setting {low} ({minimum}) > {high} ({maximum})")
