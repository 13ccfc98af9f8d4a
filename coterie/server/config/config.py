"""The configuration of the broker: which value each setting has, and where it comes from.

Sources, strongest first: `--config NAME=VALUE`, the environment
(`COTERIE_GROUP_INITIAL_REBALANCE_DELAY_MS`), a properties file, the default. On top of them stand
the values a client altered while the server ran. An unknown name or a bad value ends the start with
an error that names the source, the setting, what was meant perhaps, and what is allowed.
"""

from collections.abc import Iterable, Mapping

from coterie.coordinator.config import GroupConfig
from coterie.server.config.broker_keys import BROKER, OPTIONS_INSTEAD
from coterie.server.config.keys import ConfigKey, ConfigSource, InvalidValue, Value
from coterie.server.config.topic_keys import TOPIC
from coterie.storage.properties import parse_properties

ENVIRONMENT_PREFIX = "COTERIE_"


class ConfigError(Exception):
    """The configuration can't be used; the text tells people why and what to do."""


class Config:
    """The broker's settings."""

    def __init__(self, values: Mapping[str, str] | None = None) -> None:
        """The defaults, and `values` (checked) over them.

        Raises:
            InvalidValue: a value is not allowed.
        """
        self._static: dict[str, str] = dict(values or {})
        self._altered: dict[str, str] = {}
        self._parsed: dict[str, Value | None] = {}
        for name, key in BROKER.items():
            text = self._static.get(name, key.default)
            self._parsed[name] = None if text is None else key.parse(text)

    @classmethod
    def load(
        cls,
        options: Iterable[str] = (),
        environment: Mapping[str, str] | None = None,
        properties: str | None = None,
        properties_name: str = "properties file",
    ) -> "Config":
        """Merge the sources.

        Args:
            options: `NAME=VALUE` each, as given to --config.
            environment: the process environment.
            properties: text of a properties file.
            properties_name: how error messages call that file.

        Raises:
            ConfigError: a name is unknown or a value not allowed.
        """
        values: dict[str, str] = {}
        if properties is not None:
            try:
                entries = parse_properties(properties)
            except ValueError as error:
                raise ConfigError(f"{properties_name}: {error}") from None
            for line, name, value in entries:
                values[name] = _checked(f"{properties_name}, line {line}", name, value)
        for variable, name, value in _from_environment(environment or {}):
            values[name] = _checked(f"environment variable {variable}", name, value)
        for option in options:
            name, equals, value = option.partition("=")
            if not equals:
                raise ConfigError(f"--config {option}: expected NAME=VALUE")
            values[name.strip()] = _checked(f"--config {option}", name.strip(), value)
        config = cls(values)
        shortest, longest = "group.min.session.timeout.ms", "group.max.session.timeout.ms"
        if config.get_int(shortest) > config.get_int(longest):
            low, high = config.get_int(shortest), config.get_int(longest)
            raise ConfigError(f"{shortest}={low} is above {longest}={high}")
        return config

    def get_int(self, name: str) -> int:
        """A number's value."""
        value = self._parsed[name]
        assert isinstance(value, int), name
        return value

    def get_float(self, name: str) -> float:
        """A fraction's value, or that of a number that may be huge."""
        value = self._parsed[name]
        assert isinstance(value, float), name
        return value

    def get_bool(self, name: str) -> bool:
        """A switch's value."""
        value = self._parsed[name]
        assert isinstance(value, bool), name
        return value

    def text(self, name: str) -> str | None:
        """A setting's value as text; None where it has none."""
        return self._altered.get(name, self._static.get(name, BROKER[name].default))

    def sources(self, name: str) -> list[tuple[str, ConfigSource]]:
        """Every place that gives the setting a value, strongest first."""
        found = []
        if name in self._altered:
            found.append((self._altered[name], ConfigSource.DYNAMIC_BROKER))
        if name in self._static:
            found.append((self._static[name], ConfigSource.STATIC_BROKER))
        default = BROKER[name].default
        if default is not None:
            found.append((default, ConfigSource.DEFAULT))
        return found

    @property
    def altered(self) -> dict[str, str]:
        """The settings clients altered, as text."""
        return dict(self._altered)

    def alter(self, values: Mapping[str, str]) -> None:
        """Replace what clients altered; the values are checked."""
        for name in {*self._altered, *values}:
            text = values.get(name, self._static.get(name, BROKER[name].default))
            self._parsed[name] = None if text is None else BROKER[name].parse(text)
        self._altered = dict(values)

    def topic_default(self, key: ConfigKey) -> str | None:
        """What a topic's setting is where the topic does not say."""
        for name, factor in key.synonyms:
            text = self.text(name)
            if text is not None:
                return text if factor == 1 else str(int(text) * factor)
        return key.default

    def group_config(self) -> GroupConfig:
        """The part the coordinator is told."""
        return GroupConfig(
            group_min_session_timeout_ms=self.get_int("group.min.session.timeout.ms"),
            group_max_session_timeout_ms=self.get_int("group.max.session.timeout.ms"),
            group_initial_rebalance_delay_ms=self.get_int("group.initial.rebalance.delay.ms"),
            group_max_size=self.get_int("group.max.size"),
            offset_metadata_max_size=self.get_int("offset.metadata.max.bytes"),
            offsets_retention_ms=self.get_int("offsets.retention.minutes") * 60_000,
            offsets_retention_check_interval_ms=self.get_int("offsets.retention.check.interval.ms"),
            offsets_topic_num_partitions=self.get_int("offsets.topic.num.partitions"),
        )


class TopicConfig:
    """The settings of one topic: its own, and the broker's for the rest.

    Read on the produce path, so parsed once.
    """

    __slots__ = (
        "after_max_ms",
        "before_max_ms",
        "compact",
        "compression",
        "delete",
        "delete_retention_ms",
        "index_interval_bytes",
        "log_append_time",
        "max_compaction_lag_ms",
        "max_message_bytes",
        "min_cleanable_ratio",
        "min_compaction_lag_ms",
        "overrides",
        "retention_bytes",
        "retention_ms",
        "segment_bytes",
        "segment_ms",
    )

    def __init__(self, broker: Config, overrides: Mapping[str, str]) -> None:
        """For a topic with the given settings of its own, which are checked."""
        self.overrides = dict(overrides)

        def value(name: str) -> Value:
            text = self.overrides.get(name)
            if text is None:
                text = broker.topic_default(TOPIC[name])
            assert text is not None
            return TOPIC[name].parse(text)

        def number(name: str) -> int:
            parsed = value(name)
            assert isinstance(parsed, int)
            return parsed

        self.max_message_bytes = number("max.message.bytes")
        self.segment_bytes = number("segment.bytes")
        self.segment_ms = number("segment.ms")
        self.index_interval_bytes = number("index.interval.bytes")
        self.after_max_ms = number("message.timestamp.after.max.ms")
        self.before_max_ms = number("message.timestamp.before.max.ms")
        self.log_append_time = value("message.timestamp.type") == "LogAppendTime"
        self.compression = str(value("compression.type"))
        policies = value("cleanup.policy")
        assert isinstance(policies, tuple)
        self.compact = "compact" in policies
        self.delete = "delete" in policies
        self.delete_retention_ms = number("delete.retention.ms")
        self.min_compaction_lag_ms = number("min.compaction.lag.ms")
        self.max_compaction_lag_ms = number("max.compaction.lag.ms")
        ratio = value("min.cleanable.dirty.ratio")
        assert isinstance(ratio, float)
        self.min_cleanable_ratio = ratio
        self.retention_ms = number("retention.ms")
        self.retention_bytes = number("retention.bytes")


# Variables with our prefix that are not settings: options of commands, and what the tests need.
_OTHER_VARIABLES = ("COTERIE_ADVERTISE", "COTERIE_BOOTSTRAP")
_TEST_VARIABLES = "COTERIE_TEST_"


def _from_environment(environment: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """(variable, name of the setting, value) of every variable with our prefix."""
    by_variable = {name.upper().replace(".", "_"): name for name in BROKER}
    found = []
    for variable in sorted(environment):
        if variable in _OTHER_VARIABLES or variable.startswith(_TEST_VARIABLES):
            continue
        if variable.startswith(ENVIRONMENT_PREFIX):
            rest = variable[len(ENVIRONMENT_PREFIX) :]
            name = by_variable.get(rest, rest.lower().replace("_", "."))
            found.append((variable, name, environment[variable]))
    return found


def _checked(source: str, name: str, value: str) -> str:
    key = BROKER.get(name)
    if key is None:
        raise ConfigError(f"{source}: {_unknown(name)}")
    try:
        key.parse(value)
    except InvalidValue as error:
        raise ConfigError(f"{source}: {error}. {name} is {key.allowed}.") from None
    return value.strip()


def _unknown(name: str) -> str:
    instead = OPTIONS_INSTEAD.get(name)
    if instead is not None:
        return f"{name} is not a setting of this broker; use {instead}."
    # Only an error pays for this import.
    from difflib import get_close_matches

    near = get_close_matches(name, BROKER, n=3, cutoff=0.6)
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    return f"{name} is not a setting that this broker honours.{hint}"
