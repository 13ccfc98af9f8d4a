"""Every name that a settings file of Kafka may hold [settings/known-names].

The settings of Kafka 4.3.1 are the rows of `broker_settings.tsv`, those that Kafka has removed are
in `removed_settings.tsv`, and why others have no effect here is in `without_effect.tsv`. They
become descriptions when a name is first looked up that has no effect here, so that the start of a
broker without such names does not pay for them.
"""

import re
from functools import cache
from typing import NamedTuple

from coterie.server.config.broker_keys import BROKER, BROKER_TABLE, KAFKAS, OWN
from coterie.server.config.keys import ConfigKey, UpdateMode
from coterie.server.config.tables import key_of, rows

# What Kafka's authorizer reads besides the settings of the broker.
SUPER_USERS = "super.users"
ALLOWED_WITHOUT_ACL = "allow.everyone.if.no.acl.found"
NAMES_OF_AUTHORIZER = frozenset({SUPER_USERS, ALLOWED_WITHOUT_ACL})

# Names that are not settings of Kafka's broker. Plugins and other distributions read them: these
# names ...
_NAMES_OF_PLUGINS = NAMES_OF_AUTHORIZER | frozenset(
    {
        "kafka.csv.metrics.dir",
        "kafka.csv.metrics.reporter.enabled",
        "offsets.topic.min.isr",
    }
)
# ... and names with these prefixes.
_PREFIXES_OF_PLUGINS = (
    "authorizer.zookeeper.",
    "client.quota.callback.",
    "config.providers.",
    "confluent.",
    "cruise.control.",
    "metrics.context.",
    "metrics.jmx.",
    "opa.authorizer.",
    "rlmm.config.",
    "rsm.config.",
    "strimzi.",
)

# With the mechanism of tokens, whose settings it may have too.
_LISTENER_PREFIX = r"listener\.name\.[^.]+\.(?:oauthbearer\.(?=sasl\.oauthbearer\.))?(.+)"
# What may be set for one SASL mechanism of a listener, also another one.
_OF_MECHANISMS = (
    "connections.max.reauth.ms",
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
)


class RemovedKey(NamedTuple):
    """A setting that Kafka had once.

    Attributes:
        name: its name.
        release: the release that removed it.
        successor: the setting that replaces it, or "".
    """

    name: str
    release: str
    successor: str


@cache
def kafka_keys() -> dict[str, ConfigKey]:
    """Return the settings of Kafka 4.3.1, by name."""
    return {
        columns[0]: key_of(columns[:KAFKAS], _documentation(columns[0]))
        for columns in rows(BROKER_TABLE)
        if columns[-1] != OWN
    }


@cache
def removed_keys() -> dict[str, RemovedKey]:
    """Return the settings that releases up to 4.3 have removed, by name."""
    return {
        name: RemovedKey(name, release, "" if successor == "-" else successor)
        for name, release, successor in rows("removed_settings.tsv")
    }


@cache
def reasons() -> dict[str, str]:
    """Return why settings have no effect here, by name or by a beginning of names with a star."""
    return {row[0]: row[1] for row in rows("without_effect.tsv")}


def _documentation(name: str) -> str:
    if name in BROKER:
        return BROKER[name].documentation
    return f"Accepted without an effect on this broker: {reason_of(name)}."


def reason_of(name: str) -> str | None:
    """Return why a setting has no effect here; None if Kafka 4.3.1 does not have it."""
    known = reasons()
    if name in known:
        return known[name]
    beginnings = [each for each in known if each[-1] == "*" and name.startswith(each[:-1])]
    return known[max(beginnings, key=len)] if beginnings else None


def find_key(name: str) -> ConfigKey | None:
    """Return the description of a broker's setting; None if this broker and Kafka 4.3.1 lack it.

    A setting of one listener, such as `listener.name.external.ssl.keystore.location`, has the
    description of its base.
    """
    key = BROKER.get(name) or kafka_keys().get(name)
    if key is None and (base := listener_base(name)) is not None:
        return (BROKER.get(base) or kafka_keys()[base])._replace(
            name=name, default=None, update=UpdateMode.READ_ONLY, is_listed=False
        )
    return key


def listener_base(name: str) -> str | None:
    """Return the setting that `listener.name.NAME.` overrides; None if `name` overrides none."""
    matched = re.fullmatch(_LISTENER_PREFIX, name)
    if matched is None:
        return None
    base = matched[1]
    for of_mechanism in _OF_MECHANISMS:
        if base.endswith(f".{of_mechanism}"):
            return of_mechanism
    return base if base in kafka_keys() else None


def is_name_of_plugin(name: str) -> bool:
    """Return whether a plugin or another distribution of Kafka reads this name."""
    return name in _NAMES_OF_PLUGINS or name.startswith(_PREFIXES_OF_PLUGINS)


def near_names(name: str) -> list[str]:
    """Return the known names that are most like an unknown one, the best first."""
    # Only an error pays for this import.
    from difflib import get_close_matches

    known = {**BROKER, **kafka_keys(), **removed_keys()}
    return get_close_matches(name, known, n=3, cutoff=0.6)
