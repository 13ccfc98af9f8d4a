"""Settings as DescribeConfigs and CreateTopics answer them: value, source, synonyms (KIP-226)."""

from typing import NamedTuple

from coterie.server.config.broker_keys import BROKER
from coterie.server.config.config import Config, TopicConfig
from coterie.server.config.keys import ConfigKey, ConfigSource
from coterie.server.config.topic_keys import TOPIC


class Synonym(NamedTuple):
    """A place that gives a setting a value."""

    name: str
    value: str
    source: ConfigSource


class Setting(NamedTuple):
    """A setting, its value, and every place that gives it one, the strongest first."""

    key: ConfigKey
    value: str | None
    source: ConfigSource
    synonyms: list[Synonym]
    read_only: bool


def topic_settings(broker: Config, topic: TopicConfig) -> list[Setting]:
    """The settings of a topic, by name."""
    return [_topic_setting(broker, topic, TOPIC[name]) for name in sorted(TOPIC)]


def broker_settings(broker: Config) -> list[Setting]:
    """The settings of the broker, by name."""
    return [_broker_setting(broker, BROKER[name]) for name in sorted(BROKER)]


def _topic_setting(broker: Config, topic: TopicConfig, key: ConfigKey) -> Setting:
    synonyms = []
    own = topic.overrides.get(key.name)
    if own is not None:
        synonyms.append(Synonym(key.name, own, ConfigSource.TOPIC))
    inherited: ConfigSource | None = None
    for name, factor in key.synonyms:
        for value, source in broker.sources(name):
            inherited = inherited or source
            # One in another unit is where the value comes from, but not the value; Kafka leaves it
            # out.
            if factor == 1:
                synonyms.append(Synonym(name, value, source))
    if own is not None:
        return Setting(key, own, ConfigSource.TOPIC, synonyms, read_only=False)
    value_here = broker.topic_default(key)
    return Setting(key, value_here, inherited or ConfigSource.DEFAULT, synonyms, read_only=False)


def _broker_setting(broker: Config, key: ConfigKey) -> Setting:
    synonyms = [Synonym(key.name, value, source) for value, source in broker.sources(key.name)]
    source = synonyms[0].source if synonyms else ConfigSource.DEFAULT
    return Setting(key, broker.text(key.name), source, synonyms, read_only=not key.dynamic)
