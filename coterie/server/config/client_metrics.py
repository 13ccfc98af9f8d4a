"""The settings of subscriptions of client metrics (KIP-714), and what they mean.

[settings/client-metrics], [telemetry/subscriptions]
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from coterie.coordinator.patterns import InvalidPattern, Pattern
from coterie.server.config.keys import ConfigKey, ConfigType, InvalidValue

_LONGEST_INTERVAL_MS = 3_600_000
_SHORTEST_INTERVAL_MS = 100
DEFAULT_INTERVAL_MS = 300_000

# The most states of all patterns together: a client is compared with each of them.
MAX_STATES = 10_000

_INTERVAL, _MATCH, _METRICS = "interval.ms", "match", "metrics"

CLIENT_METRICS: dict[str, ConfigKey] = {
    key.name: key
    for key in (
        ConfigKey(
            _INTERVAL,
            ConfigType.INT,
            str(DEFAULT_INTERVAL_MS),
            "Interval in which clients are to send their metrics.",
            1,
        ),
        ConfigKey(
            _MATCH,
            ConfigType.LIST,
            "",
            "Which clients are meant: a list of criteria, NAME=PATTERN each.",
        ),
        ConfigKey(_METRICS, ConfigType.LIST, "", "Prefixes of the names of the metrics; * is all."),
    )
}

_CRITERIA = (
    "client_id",
    "client_instance_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)


class Subscription(NamedTuple):
    """What some clients are asked for.

    Attributes:
        interval_ms: how often they push.
        metrics: prefixes of the names of the metrics; "*" is all.
        criteria: what must match of a client, all of it: property and pattern.
    """

    interval_ms: int
    metrics: tuple[str, ...]
    criteria: tuple[tuple[str, Pattern], ...]


class InvalidInterval(InvalidValue):
    """An interval out of range, which has an error of its own."""


class TooManyStates(InvalidValue):
    """The patterns of all subscriptions together are too large."""


def check_client_metrics_values(values: Mapping[str, str]) -> None:
    """Check the settings of a subscription, all of which are in `CLIENT_METRICS`.

    Raises:
        InvalidInterval: the interval is too short or too long.
        InvalidValue: another value is invalid.
    """
    parsed = {name: CLIENT_METRICS[name].parse(text) for name, text in values.items()}
    interval = parsed.get(_INTERVAL)
    if interval is not None:
        assert isinstance(interval, int)
        if not _SHORTEST_INTERVAL_MS <= interval <= _LONGEST_INTERVAL_MS:
            raise InvalidInterval(
                f"Invalid value {interval} for interval.ms, interval must be between"
                f" {_SHORTEST_INTERVAL_MS} and {_LONGEST_INTERVAL_MS} (1 hour)"
            )
    criteria = parsed.get(_MATCH, ())
    assert isinstance(criteria, tuple)
    for criterion in criteria:
        name, pattern = _parts(criterion)
        if name not in _CRITERIA or not _is_pattern(pattern) or _compiled(pattern) is None:
            raise InvalidValue(f"Illegal client matching pattern: {criterion}")


def subscriptions(settings: Mapping[str, Mapping[str, str]]) -> list[Subscription]:
    """Return the subscriptions whose settings are these, by name.

    A pattern that another release has stored and that is not supported here matches no client.

    Raises:
        TooManyStates: their patterns are too large altogether.
    """
    found = [each for values in settings.values() if (each := _subscription(values)) is not None]
    if sum(pattern.states for each in found for _, pattern in each.criteria) > MAX_STATES:
        raise TooManyStates(f"Patterns of subscriptions have at most {MAX_STATES} states.")
    return found


def _subscription(values: Mapping[str, str]) -> Subscription | None:
    parsed = {name: key.parse(values.get(name, key.default or "")) for name, key in _KEYS}
    interval, metrics, criteria = (parsed[name] for name in (_INTERVAL, _METRICS, _MATCH))
    assert isinstance(interval, int)
    assert isinstance(metrics, tuple)
    assert isinstance(criteria, tuple)
    patterns = []
    # As in Kafka the last of several criteria about one property counts.
    for name, text in dict(_parts(criterion) for criterion in criteria).items():
        pattern = _compiled(text)
        if pattern is None:
            return None
        patterns.append((name, pattern))
    return Subscription(interval, metrics, tuple(patterns))


_KEYS = tuple(CLIENT_METRICS.items())


def _parts(criterion: str) -> tuple[str, str]:
    name, equals, pattern = criterion.partition("=")
    return name.strip(), pattern.strip() if equals else ""


def _is_pattern(text: str) -> bool:
    try:
        re.compile(text)
    except re.error:
        return False
    return bool(text) and "=" not in text


def _compiled(text: str) -> Pattern | None:
    try:
        return Pattern(text)
    except InvalidPattern:
        return None
