"""The settings of groups (KIP-848, KIP-932, KIP-1071), kept and described [settings/groups]."""

from collections.abc import Mapping

from coterie.server.config.config import Config
from coterie.server.config.keys import ConfigKey, InvalidValue, Value
from coterie.server.config.share_leaders import offset_reset
from coterie.server.config.tables import derived_keys

GROUP: dict[str, ConfigKey] = derived_keys("group_settings.tsv")

# What the broker bounds: the setting of a group, and the end of the names of the bounds.
_BOUNDED = (
    ("consumer", "heartbeat.interval.ms"),
    ("consumer", "session.timeout.ms"),
    ("consumer", "assignment.interval.ms"),
    ("share", "heartbeat.interval.ms"),
    ("share", "session.timeout.ms"),
    ("share", "record.lock.duration.ms"),
    ("share", "delivery.count.limit"),
    ("share", "partition.max.record.locks"),
    ("share", "assignment.interval.ms"),
    ("streams", "heartbeat.interval.ms"),
    ("streams", "session.timeout.ms"),
    ("streams", "num.standby.replicas"),
    ("streams", "assignment.interval.ms"),
)
_OTHER_BOUNDS = {"num.standby.replicas": "standby.replicas"}
_KINDS = ("consumer", "share", "streams")


def check_group_values(broker: Config, values: Mapping[str, str]) -> None:
    """Check the settings of a group, all of which are in `GROUP`.

    Raises:
        InvalidValue: one is invalid, beyond the bounds of the broker, or contradicts another.
    """
    parsed = {name: _group_value(broker, values, key) for name, key in GROUP.items()}
    for kind, rest in _BOUNDED:
        name = f"{kind}.{rest}"
        bound = _OTHER_BOUNDS.get(rest, rest)
        low, high = (f"group.{kind}.{word}.{bound}" for word in ("min", "max"))
        minimum, maximum = broker.text(low), broker.text(high)
        value = parsed[name]
        assert isinstance(value, int), name
        # A value that the group does not set itself is the broker's, which may be out of bounds.
        if name in values and minimum is not None and value < int(minimum):
            raise InvalidValue(f"{name} must be greater than or equal to {low}")
        if name in values and maximum is not None and value > int(maximum):
            raise InvalidValue(f"{name} must be less than or equal to {high}")
    for kind in _KINDS:
        session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        if _number(parsed[session]) <= _number(parsed[heartbeat]):
            raise InvalidValue(f"{session} must be greater than {heartbeat}")


def _group_value(broker: Config, values: Mapping[str, str], key: ConfigKey) -> Value:
    text = values.get(key.name)
    if text is None:
        text = broker.topic_default(key)
    assert text is not None, "every setting of a group has a default"
    value = key.parse(text)
    if key.name == "share.auto.offset.reset":
        try:
            offset_reset(str(value))
        except ValueError:
            raise InvalidValue(
                f"Invalid value {value} for configuration {key.name}: Invalid value `{value}` for"
                f" configuration {key.name}. The value must be either 'earliest', 'latest' or of"
                " the format 'by_duration:<PnDTnHnMn.nS>'."
            ) from None
    return value


def _number(value: Value) -> int:
    assert isinstance(value, int)
    return value
