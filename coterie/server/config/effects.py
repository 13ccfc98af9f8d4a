"""Settings that were given and have no effect on this broker [settings/no-effect]."""

from coterie.server.config.broker_keys import (
    AUTHORIZER_CLASS,
    BROKER,
    CREATION_RATE,
    MAX_CONNECTIONS,
)
from coterie.server.config.config import Config
from coterie.server.config.kafka_keys import (
    NAMES_OF_AUTHORIZER,
    find_key,
    is_name_of_plugin,
    listener_base,
    near_names,
    reason_of,
    removed_keys,
)
from coterie.server.config.sources import ConfigError

# A search for similar names takes some milliseconds, and a file may have thousands of names.
_MOST_HINTS = 10

# The settings that a listener may have for itself begin so.
_OF_LISTENERS = (
    "ssl.",
    "connections.max.reauth.ms",
    "sasl.enabled.mechanisms",
    "sasl.oauthbearer.",
    "sasl.server.callback.handler.class",
    "sasl.server.max.receive.size",
)
_LIMITS_OF_LISTENERS = (CREATION_RATE, MAX_CONNECTIONS)
# Only a listener and a mechanism have it; for other mechanisms it says nothing.
_OF_MECHANISMS = "sasl.jaas.config"

# What has an effect if there are several brokers.
_OF_CLUSTERS = frozenset(
    {
        "default.replication.factor",
        "min.insync.replicas",
        "offsets.commit.timeout.ms",
        "offsets.topic.replication.factor",
        "share.coordinator.state.topic.min.isr",
        "share.coordinator.state.topic.replication.factor",
        "share.coordinator.write.timeout.ms",
        "transaction.state.log.min.isr",
        "transaction.state.log.replication.factor",
    }
)

# What to use instead of a setting of Kafka's.
_INSTEAD = {
    "log.flush.interval.messages": "--flush",
    "log.flush.interval.ms": "--flush interval:MS",
    "log.flush.scheduler.interval.ms": "--flush interval:MS",
}


def without_effect(config: Config, brokers: int = 1) -> list[str]:
    """Return the names of the settings that have no effect, each with a remark if there is one."""
    names = _names(config, brokers)
    unknown = [name for name in names if _is_unknown(name)]
    hints = set(unknown[:_MOST_HINTS])
    return [f"{name}{_remark(name, hint=name in hints)}" for name in names]


def refuse_without_effect(config: Config, brokers: int = 1) -> None:
    """Refuse settings that have no effect (`coterie serve --strict`).

    Raises:
        ConfigError: there are such settings; the text says where each was given.
    """
    names = _names(config, brokers)
    if names:
        count = "1 setting has" if len(names) == 1 else f"{len(names)} settings have"
        listed = ", ".join(f"{name} ({_origin(config, name)}{_why(name)})" for name in names)
        raise ConfigError(f"--strict: {count} no effect on this broker: {listed}")


def _names(config: Config, brokers: int) -> list[str]:
    effective = NAMES_OF_AUTHORIZER if config.get_text(AUTHORIZER_CLASS) else frozenset[str]()
    if brokers > 1:
        effective |= _OF_CLUSTERS
    return sorted(
        name for name in config.given_names if not _has_effect(name) and name not in effective
    )


def _has_effect(name: str) -> bool:
    base = listener_base(name)
    if base is None or base == _OF_MECHANISMS:
        return base is not None or name in BROKER
    return base in _LIMITS_OF_LISTENERS or (base in BROKER and base.startswith(_OF_LISTENERS))


def _origin(config: Config, name: str) -> str:
    given = config.given(name)
    return given.origin if given is not None else "unknown origin"


def _why(name: str) -> str:
    """Return the reason why a setting has no effect, if it is one of Kafka 4.3.1."""
    reason = reason_of(name)
    return "" if reason is None else f": {reason}"


def _is_unknown(name: str) -> bool:
    return find_key(name) is None and name not in removed_keys() and not is_name_of_plugin(name)


def _remark(name: str, *, hint: bool) -> str:
    instead = _INSTEAD.get(name)
    if instead is not None:
        return f" (use {instead})"
    removed = removed_keys().get(name)
    if removed is None:
        if not _is_unknown(name):
            return ""
        near = near_names(name) if hint else []
        return f" (unknown; did you mean {' or '.join(near)}?)" if near else " (unknown)"
    successor = f", use {removed.successor}" if removed.successor else ""
    return f" (removed in Kafka {removed.release}{successor})"
