"""The description of one setting: its type, range and documentation, and how text becomes a value.

The settings themselves are tables (`tables.py`). Texts of
refused values are Kafka's, because clients show them and tests compare them [settings/values].
"""

from enum import Enum, IntEnum
from sys import float_info
from typing import NamedTuple

# The types of resources that have settings, by their numbers in requests.
TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4
BROKER_LOGGER_RESOURCE = 8
CLIENT_METRICS_RESOURCE = 16
GROUP_RESOURCE = 32

Value = bool | int | float | str | tuple[str, ...]


class ConfigType(IntEnum):
    """Types of settings by their numbers in DescribeConfigs."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class ConfigSource(IntEnum):
    """Sources of values by their numbers in DescribeConfigs."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class UpdateMode(Enum):
    """How a broker's setting may be altered while the broker runs (KIP-226)."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


_LIMITS: dict[ConfigType, float] = {
    ConfigType.SHORT: 2**15 - 1,
    ConfigType.INT: 2**31 - 1,
    ConfigType.LONG: 2**63 - 1,
    ConfigType.DOUBLE: float_info.max,
}
_TEXTS = (ConfigType.STRING, ConfigType.CLASS, ConfigType.PASSWORD)


class InvalidValue(ValueError):  # noqa: N818 - the value is invalid, not our code
    """A value that a setting cannot have; the text is Kafka's."""


class ConfigKey(NamedTuple):
    """One setting.

    Attributes:
        name: Kafka's name.
        type: see `ConfigType`.
        default: as text; None if there is none.
        documentation: what the setting does, one or two sentences.
        minimum, maximum: bounds of a number, unless its type is the only bound.
        choices: the values that a string or an element of a list can have; empty for any.
        or_minus_one: whether -1 is allowed besides the range.
        update: how a broker's setting may be altered; topics' settings may always be.
        is_listed: whether DescribeConfigs lists the setting even if it is not set.
        synonyms: for a topic's setting, the broker's settings that its default comes from, as
            (name, factor of their unit); the first that has a value counts.
    """

    name: str
    type: ConfigType
    default: str | None
    documentation: str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    or_minus_one: bool = False
    update: UpdateMode = UpdateMode.READ_ONLY
    is_listed: bool = True
    synonyms: tuple[tuple[str, int], ...] = ()

    @property
    def is_sensitive(self) -> bool:
        """Whether the value is a secret, which is never shown."""
        return self.type is ConfigType.PASSWORD

    def parse(self, text: str) -> Value:
        """Return the value of `text`.

        Raises:
            InvalidValue: the setting cannot have this value.
        """
        text = text.strip()
        if self.type is ConfigType.BOOLEAN:
            if text.lower() not in ("true", "false"):
                raise self._invalid(text, "Expected value to be either true or false")
            return text.lower() == "true"
        if self.type is ConfigType.LIST:
            return self._parse_list(text)
        if self.type in _TEXTS:
            self._check_choice(text)
            return text
        return self._parse_number(text)

    def shown(self, text: str) -> str | None:
        """Return `text`, which is valid, as Kafka shows it; None for a secret."""
        return None if self.is_sensitive else as_text(self.parse(text))

    def _parse_list(self, text: str) -> tuple[str, ...]:
        if not text:
            return ()
        elements = tuple(dict.fromkeys(element.strip() for element in text.split(",")))
        if "" in elements:
            raise InvalidValue(f"Configuration '{self.name}' values must not be empty.")
        for element in elements:
            self._check_choice(element)
        return elements

    def _check_choice(self, text: str) -> None:
        if self.choices and text not in self.choices:
            raise self._invalid(text, f"String must be one of: {', '.join(self.choices)}")

    def _parse_number(self, text: str) -> int | float:
        number = _number(text, self.type)
        if number is None:
            raise self._invalid(text, f"Not a number of type {self.type.name}")
        low, high = self.minimum, self.maximum
        is_low, is_high = low is not None and number < low, high is not None and number > high
        if self.or_minus_one and low is not None and high is not None:
            if number != -1 and (is_low or is_high):
                reason = f"between {_bound(low)} and {_bound(high)} or equal to -1"
                raise self._invalid(as_text(number), f"Value must be {reason}")
        elif low is not None and is_low:
            raise self._invalid(as_text(number), f"Value must be at least {_bound(low)}")
        elif high is not None and is_high:
            raise self._invalid(as_text(number), f"Value must be no more than {_bound(high)}")
        return number

    def _invalid(self, text: str, reason: str) -> InvalidValue:
        return InvalidValue(f"Invalid value {text} for configuration {self.name}: {reason}")

    @property
    def allowed(self) -> str:
        """The values that the setting can have, in words."""
        if self.choices:
            joined = ", ".join(self.choices)
            return f"a list of: {joined}" if self.type is ConfigType.LIST else f"one of: {joined}"
        if self.type is ConfigType.BOOLEAN:
            return "true or false"
        if self.type is ConfigType.LIST:
            return "a list, separated by commas"
        if self.type in _TEXTS:
            return "any text"
        kind = "a number" if self.type is ConfigType.DOUBLE else "a whole number"
        low = "" if self.minimum is None else f" from {_bound(self.minimum)}"
        high = "" if self.maximum is None else f" to {_bound(self.maximum)}"
        return f"{kind}{low}{high}{', or -1' if self.or_minus_one else ''}"


def _number(text: str, kind: ConfigType) -> int | float | None:
    """Return the number of a type; None if `text` is not one in Java."""
    try:
        number = float(text) if kind is ConfigType.DOUBLE else int(text)
    except ValueError:
        return None
    limit = _LIMITS[kind]
    # Python allows underscores in numbers, Java does not. NaN compares with nothing, so it is not
    # within the limits either.
    return number if "_" not in text and -limit - 1 <= number <= limit else None


def as_text(value: Value) -> str:
    """Return a value as Kafka shows it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    return _java_double(value) if isinstance(value, float) else str(value)


def _java_double(value: float) -> str:
    """Return a double as Java's Double.toString prints it: 0.5, 1000.0, 1.0E7, 1.0E-4."""
    text = repr(value)
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return text
    mantissa, _, exponent = text.partition("e")
    whole, _, fraction = mantissa.partition(".")
    sign, whole = ("-", whole[1:]) if whole[0] == "-" else ("", whole)
    # The position of the first digit that is not zero decides the exponent.
    digits = (whole + fraction).lstrip("0")
    power = int(exponent or 0) + len(whole) - 1 - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{power}"


def _bound(bound: float) -> str:
    """Return a bound as Java prints it: 1048576, not 1.04858e+06."""
    return str(int(bound)) if bound == int(bound) else str(bound)
