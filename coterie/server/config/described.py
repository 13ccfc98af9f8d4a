"""Settings as DescribeConfigs and CreateTopics answer them: value, source, synonyms (KIP-226).

[settings/synonyms] gives the order of synonyms, [settings/described-values] the form of values.
"""

from collections.abc import Collection, Mapping
from functools import cache
from typing import NamedTuple

from coterie.server.config.broker_keys import BROKER
from coterie.server.config.client_metrics import CLIENT_METRICS
from coterie.server.config.config import Config
from coterie.server.config.kafka_keys import find_key, kafka_keys, listener_base
from coterie.server.config.keys import ConfigKey, ConfigSource, InvalidValue, UpdateMode
from coterie.server.config.resource_keys import GROUP
from coterie.server.config.topic_config import TopicConfig
from coterie.server.config.topic_keys import TOPIC
from coterie.server.loggers import Loggers

# The type of a setting that this broker and Kafka 4.3.1 lack.
UNKNOWN_TYPE = 0

# The same setting in different units. Kafka lists a whole family as synonyms.
_FAMILIES = (
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
)
_FAMILY_OF = {name: family for family in _FAMILIES for name in family}


class Synonym(NamedTuple):
    """A place that gives a setting a value; the value is None for a secret."""

    name: str
    value: str | None
    source: ConfigSource


class Setting(NamedTuple):
    """A setting, its value, and the places that give it one, the effective one first."""

    name: str
    type: int
    value: str | None
    source: ConfigSource
    synonyms: list[Synonym]
    read_only: bool
    is_sensitive: bool
    documentation: str | None


def topic_settings(
    broker: Config, topic: TopicConfig, names: Collection[str] | None = None
) -> list[Setting]:
    """Return the settings of a topic, by name; with `names` only those."""
    own, source = topic.overrides, ConfigSource.TOPIC
    listed = {name for name, key in TOPIC.items() if key.is_listed or name in own}
    selected = listed if names is None else listed & set(names)
    return [_inherited(broker, own, source, TOPIC[name]) for name in sorted(selected)]


def broker_settings(broker: Config, names: Collection[str] | None = None) -> list[Setting]:
    """Return the settings of the broker, by name; with `names` only those."""
    listed, given = _listed_names(), broker.names
    selected = listed | given if names is None else {n for n in names if n in listed or n in given}
    return [_broker_setting(broker, name) for name in sorted(selected)]


def cluster_settings(broker: Config, names: Collection[str] | None = None) -> list[Setting]:
    """Return what clients altered of the whole cluster, by name; with `names` only those."""
    settings = []
    for name, text in sorted(broker.cluster_defaults.items()):
        if names is None or name in names:
            key = find_key(name)
            value = None if key is None or key.is_sensitive else text
            source = ConfigSource.DYNAMIC_DEFAULT_BROKER
            synonyms = [Synonym(name, value, source)]
            settings.append(_setting(name, key, value, source, synonyms))
    return settings


def group_settings(
    broker: Config, group_id: str, names: Collection[str] | None = None
) -> list[Setting]:
    """Return the settings of a group, by name; with `names` only those."""
    own = broker.groups.get(group_id, {})
    source = ConfigSource.GROUP
    selected = GROUP.keys() if names is None else GROUP.keys() & set(names)
    return [_inherited(broker, own, source, GROUP[name]) for name in sorted(selected)]


def client_metrics_settings(
    broker: Config, subscription: str, names: Collection[str] | None = None
) -> list[Setting]:
    """Return the settings of a subscription of client metrics, by name; with `names` only those."""
    own = broker.client_metrics.get(subscription, {})
    source = ConfigSource.CLIENT_METRICS
    keys = CLIENT_METRICS
    selected = keys.keys() if names is None else keys.keys() & set(names)
    return [_inherited(broker, own, source, keys[name]) for name in sorted(selected)]


def logger_settings(loggers: Loggers, names: Collection[str] | None = None) -> list[Setting]:
    """Return the levels of loggers, by name; with `names` only those."""
    return [
        Setting(
            name,
            UNKNOWN_TYPE,
            loggers.level(name),
            ConfigSource.BROKER_LOGGER,
            [],
            read_only=False,
            is_sensitive=False,
            documentation="",
        )
        for name in loggers.names
        if names is None or name in names
    ]


@cache
def _listed_names() -> frozenset[str]:
    return frozenset(name for name, key in (kafka_keys() | BROKER).items() if key.is_listed)


def _inherited(
    broker: Config, overrides: Mapping[str, str], source: ConfigSource, key: ConfigKey
) -> Setting:
    """Return a setting of which a resource has a value of its own, or else that of the broker."""
    own = overrides.get(key.name)
    text = own if own is not None else broker.topic_default(key)
    value = None if text is None else _shown(key, text)
    synonyms = _synonyms(broker, key.synonyms[0][0]) if key.synonyms else []
    if source is ConfigSource.GROUP and not key.synonyms and key.default is not None:
        synonyms.append(Synonym(key.name, key.default, ConfigSource.DEFAULT))
    if own is not None:
        synonyms.insert(0, Synonym(key.name, value, source))
    return Setting(
        key.name,
        key.type,
        value,
        synonyms[0].source if synonyms else ConfigSource.DEFAULT,
        synonyms,
        read_only=False,
        is_sensitive=False,
        documentation=key.documentation,
    )


def _broker_setting(broker: Config, name: str) -> Setting:
    key = find_key(name)
    text = broker.text(name)
    value = None if key is None or text is None else _shown(key, text)
    synonyms = _synonyms(broker, name)
    source = synonyms[0].source if synonyms else ConfigSource.DEFAULT
    return _setting(name, key, value, source, synonyms)


def _setting(
    name: str,
    key: ConfigKey | None,
    value: str | None,
    source: ConfigSource,
    synonyms: list[Synonym],
) -> Setting:
    return Setting(
        name,
        UNKNOWN_TYPE if key is None else key.type,
        value,
        source,
        synonyms,
        read_only=key is None or key.update is UpdateMode.READ_ONLY,
        # A value of which nothing is known may be a secret.
        is_sensitive=key is None or key.is_sensitive,
        documentation=None if key is None or listener_base(name) else key.documentation,
    )


def _synonyms(broker: Config, name: str) -> list[Synonym]:
    """Return the places that give a broker's setting a value, as Kafka orders them.

    All names of a layer come before those of a weaker layer, and what precedes the first value of
    `name` itself is left out. So a value that only log.retention.hours gives shows no synonyms.
    """
    names = _FAMILY_OF.get(name, (name,))
    base = listener_base(name)
    if base is not None:
        names = (name, base)
    found = [
        (source, at, Synonym(each, None if _is_secret(each) else text, source))
        for at, each in enumerate(names)
        for text, source in broker.sources(each)
    ]
    ordered = [synonym for _, _, synonym in sorted(found, key=lambda each: each[:2])]
    first = next((at for at, each in enumerate(ordered) if each.name == name), len(ordered))
    return ordered[first:]


def _is_secret(name: str) -> bool:
    key = find_key(name)
    return key is None or key.is_sensitive


def _shown(key: ConfigKey, text: str) -> str | None:
    try:
        return key.shown(text)
    except InvalidValue:
        # A release before this one accepted and stored the value.
        return text
