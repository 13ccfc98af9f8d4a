"""Settings that were given and have no effect on this broker [settings/no-effect]."""

from coterie.server.config.broker_keys import BROKER
from coterie.server.config.config import Config
from coterie.server.config.kafka_keys import removed_keys
from coterie.server.config.sources import ConfigError

# What to use instead of a setting of Kafka's.
_INSTEAD = {
    "log.flush.interval.messages": "--flush",
    "log.flush.interval.ms": "--flush interval:MS",
    "log.flush.scheduler.interval.ms": "--flush interval:MS",
}


def without_effect(config: Config) -> list[str]:
    """Return the names of the settings that have no effect, each with a remark if there is one."""
    return [f"{name}{_remark(name)}" for name in _names(config)]


def refuse_without_effect(config: Config) -> None:
    """Refuse settings that have no effect (`coterie serve --strict`).

    Raises:
        ConfigError: there are such settings; the text says where each was given.
    """
    names = _names(config)
    if names:
        count = "1 setting has" if len(names) == 1 else f"{len(names)} settings have"
        listed = ", ".join(f"{name} ({_origin(config, name)})" for name in names)
        raise ConfigError(f"--strict: {count} no effect on this broker: {listed}")


def _names(config: Config) -> list[str]:
    return sorted(name for name in config.given_names if name not in BROKER)


def _origin(config: Config, name: str) -> str:
    given = config.given(name)
    return given.origin if given is not None else "unknown origin"


def _remark(name: str) -> str:
    instead = _INSTEAD.get(name)
    if instead is not None:
        return f" (use {instead})"
    removed = removed_keys().get(name)
    if removed is None:
        return ""
    successor = f", use {removed.successor}" if removed.successor else ""
    return f" (removed in Kafka {removed.release}{successor})"
