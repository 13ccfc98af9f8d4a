"""What one configuration setting is: its type, range and documentation, and how its text becomes a
value.

The tables that use these descriptions stand in `config_broker.py` and `config_topics.py`. The
wording of refused values is Kafka's, because clients show it to people and tests compare it.
"""

from enum import IntEnum
from sys import float_info
from typing import NamedTuple

Value = bool | int | float | str | tuple[str, ...]

_SHORT_MAX = 2**15 - 1
_INT_MAX = 2**31 - 1
_LONG_MAX = 2**63 - 1


class ConfigType(IntEnum):
    """Types of settings by their numbers in DescribeConfigs."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7


class ConfigSource(IntEnum):
    """Where a value comes from, by the numbers of DescribeConfigs."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    GROUP = 8


_LIMITS: dict[ConfigType, float] = {
    ConfigType.SHORT: _SHORT_MAX,
    ConfigType.INT: _INT_MAX,
    ConfigType.LONG: _LONG_MAX,
    ConfigType.DOUBLE: float_info.max,
}


class InvalidValue(ValueError):  # noqa: N818 - it names the value, not our error
    """A value that a setting can't have; the text is Kafka's."""


class ConfigKey(NamedTuple):
    """One setting.

    Attributes:
        name: Kafka's.
        type: see `ConfigType`.
        default: as text; None where Kafka has none.
        documentation: what it does, one or two sentences.
        minimum, maximum: of numbers, where the type alone does not say.
        choices: of strings and of list elements.
        dynamic: whether it may be altered while the server runs.
        synonyms: for a topic's setting, the broker's settings its default comes from: (name,
            factor), first one set wins.
    """

    name: str
    type: ConfigType
    default: str | None
    documentation: str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    dynamic: bool = False
    synonyms: tuple[tuple[str, int], ...] = ()

    def parse(self, text: str) -> Value:
        """The value that `text` stands for.

        Raises:
            InvalidValue: it stands for none that this setting can have.
        """
        text = text.strip()
        if self.type is ConfigType.BOOLEAN:
            if text.lower() not in ("true", "false"):
                raise self._invalid(text, "Expected value to be either true or false")
            return text.lower() == "true"
        if self.type is ConfigType.STRING:
            if self.choices and text not in self.choices:
                raise self._invalid(text, f"String must be one of: {', '.join(self.choices)}")
            return text
        if self.type is ConfigType.LIST:
            parts = tuple(part.strip() for part in text.split(",") if part.strip())
            for part in parts:
                if self.choices and part not in self.choices:
                    raise self._invalid(part, f"String must be one of: {', '.join(self.choices)}")
            return parts
        return self._number(text)

    def _number(self, text: str) -> Value:
        number: int | float
        try:
            number = float(text) if self.type is ConfigType.DOUBLE else int(text)
        except ValueError:
            raise self._invalid(text, f"Not a number of type {self.type.name}") from None
        limit = _LIMITS[self.type]
        # Written so that it refuses what compares with nothing (nan).
        if not -limit - 1 <= number <= limit:
            raise self._invalid(text, f"Not a number of type {self.type.name}")
        if self.minimum is not None and number < self.minimum:
            raise self._invalid(text, f"Value must be at least {_plain(self.minimum)}")
        if self.maximum is not None and number > self.maximum:
            raise self._invalid(text, f"Value must be no more than {_plain(self.maximum)}")
        return number

    def _invalid(self, text: str, reason: str) -> InvalidValue:
        return InvalidValue(f"Invalid value {text} for configuration {self.name}: {reason}")

    @property
    def allowed(self) -> str:
        """What values it can have, for people."""
        if self.choices:
            joined = ", ".join(self.choices)
            return f"a list of: {joined}" if self.type is ConfigType.LIST else f"one of: {joined}"
        if self.type is ConfigType.BOOLEAN:
            return "true or false"
        if self.type in (ConfigType.STRING, ConfigType.LIST):
            return "any text"
        low = f"{self.minimum:.0f}" if self.minimum is not None else "any"
        high = f"{self.maximum:.0f}" if self.maximum is not None else "the largest number"
        return f"a number from {low} to {high}"


def _plain(limit: float) -> str:
    """A limit as Java prints it: 1048576, not 1.04858e+06."""
    return str(int(limit)) if limit == int(limit) else str(limit)
