"""The settings of groups (KIP-848, KIP-932, KIP-1071), kept and described [settings/groups]."""

import re
from collections.abc import Mapping

from coterie.server.config.config import Config
from coterie.server.config.keys import ConfigKey, ConfigType, InvalidValue, Value

_B, _S, _I = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT

# Settings of the broker with this prefix are the defaults of groups.
_BROKER_PREFIX = "group."


def _group_key(
    name: str,
    kind: ConfigType,
    default: str,
    documentation: str,
    minimum: int | None = None,
    choices: tuple[str, ...] = (),
    *,
    is_inherited: bool = True,
) -> ConfigKey:
    synonyms = ((_BROKER_PREFIX + name, 1),) if is_inherited else ()
    return ConfigKey(
        name, kind, default, documentation, minimum, choices=choices, synonyms=synonyms
    )


_ASSIGNMENT = "Shortest time between two assignments of a group of this kind."
_HEARTBEAT = "Interval in which members of a group of this kind send heartbeats."
_SESSION = "Time without a heartbeat after which a member of a group of this kind is removed."

GROUP: dict[str, ConfigKey] = {
    key.name: key
    for key in (
        _group_key("consumer.assignment.interval.ms", _I, "1000", _ASSIGNMENT, 0),
        _group_key("consumer.heartbeat.interval.ms", _I, "5000", _HEARTBEAT, 1),
        _group_key("consumer.session.timeout.ms", _I, "45000", _SESSION, 1),
        _group_key("share.assignment.interval.ms", _I, "1000", _ASSIGNMENT, 0),
        _group_key(
            "share.auto.offset.reset",
            _S,
            "latest",
            "Where a share group begins to read a partition.",
            is_inherited=False,
        ),
        _group_key(
            "share.delivery.count.limit", _I, "5", "How often a record is delivered at most.", 2
        ),
        _group_key("share.heartbeat.interval.ms", _I, "5000", _HEARTBEAT, 1),
        _group_key(
            "share.isolation.level",
            _S,
            "read_uncommitted",
            "Whether a share group reads records of transactions that are not committed.",
            choices=("read_committed", "read_uncommitted"),
            is_inherited=False,
        ),
        _group_key(
            "share.partition.max.record.locks",
            _I,
            "2000",
            "The most records of a partition that members have acquired.",
            100,
        ),
        _group_key(
            "share.record.lock.duration.ms",
            _I,
            "30000",
            "How long a record that a member has acquired is locked for it.",
            1000,
        ),
        _group_key(
            "share.renew.acknowledge.enable",
            _B,
            "true",
            "Whether members may extend the lock of a record.",
            is_inherited=False,
        ),
        _group_key("share.session.timeout.ms", _I, "45000", _SESSION, 1),
        _group_key("streams.assignment.interval.ms", _I, "1000", _ASSIGNMENT, 0),
        _group_key("streams.heartbeat.interval.ms", _I, "5000", _HEARTBEAT, 1),
        _group_key(
            "streams.initial.rebalance.delay.ms",
            _I,
            "3000",
            "How long the first rebalance of an empty group waits for more members.",
            0,
        ),
        _group_key(
            "streams.num.standby.replicas", _I, "0", "Standby copies of each task's state.", 0
        ),
        _group_key("streams.session.timeout.ms", _I, "45000", _SESSION, 1),
    )
}

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

_OFFSET_RESET = re.compile(
    r"earliest|latest|by_duration:[+-]?P(?=.)([+-]?\d+D)?(T(?=.)([+-]?\d+H)?([+-]?\d+M)?"
    r"([+-]?\d+([.,]\d{0,9})?S)?)?",
    re.IGNORECASE,
)


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
    if key.name == "share.auto.offset.reset" and not _OFFSET_RESET.fullmatch(str(value)):
        raise InvalidValue(
            f"Invalid value {value} for configuration {key.name}: Invalid value `{value}` for"
            f" configuration {key.name}. The value must be either 'earliest', 'latest' or of the"
            " format 'by_duration:<PnDTnHnMn.nS>'."
        )
    return value


def _number(value: Value) -> int:
    assert isinstance(value, int)
    return value
