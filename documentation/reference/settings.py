"""The settings: of the broker, of topics, of groups and of subscriptions to client metrics."""

from collections.abc import Mapping

from coterie.server.config.broker_keys import BROKER
from coterie.server.config.client_metrics import CLIENT_METRICS
from coterie.server.config.kafka_keys import reasons
from coterie.server.config.keys import ConfigKey, UpdateMode
from coterie.server.config.resource_keys import GROUP
from coterie.server.config.topic_keys import TOPIC
from documentation.reference.tables import code, prose

_HEAD = """# Settings

Every setting that has an effect, from the tables of the code, and why others have none.
[Configuration](../configuration.md) says where to set one.

"""
_WITHOUT_EFFECT = """## Settings of brokers without an effect

They are accepted, checked, described and altered as in Kafka. A star stands for all names that
begin so and have no entry of their own; the longest beginning counts.

"""
_OF_BROKERS = (
    "`coterie serve --config NAME=VALUE`, a file for `--properties`, or the environment. Some can"
    " also be altered while the broker runs, with `coterie configs alter brokers`."
)
_KINDS: Mapping[str, tuple[str, Mapping[str, ConfigKey]]] = {
    "Brokers": (_OF_BROKERS, BROKER),
    "Topics": ("`coterie topics create --config`, or `coterie configs alter topics`.", TOPIC),
    "Groups": ("`coterie configs alter groups`.", GROUP),
    "Client metrics": ("`coterie configs alter client-metrics`.", CLIENT_METRICS),
}


def settings_page() -> str:
    """Return the page; each setting has a heading, so that a search for its name leads to it."""
    parts = [_HEAD]
    for title, (where, keys) in _KINDS.items():
        parts.append(f"## {title}\n\n{where}\n\n")
        parts += [_setting(key, is_broker=keys is BROKER) for key in sorted(keys.values())]
    return "".join([*parts, _WITHOUT_EFFECT, *_lines_of_reasons()])


def _lines_of_reasons() -> list[str]:
    """Return a line for each reason, with the settings that have no effect for it."""
    names: dict[str, list[str]] = {}
    for name, reason in sorted(reasons().items()):
        names.setdefault(reason, []).append(code(name))
    return [f"* {', '.join(found)}: {prose(reason)}\n" for reason, found in names.items()]


def _setting(key: ConfigKey, *, is_broker: bool) -> str:
    form = _form(key, is_broker=is_broker)
    return f"### {key.name}\n\n{prose(key.documentation)}\n<br><small>{form}</small>\n\n"


def _form(key: ConfigKey, *, is_broker: bool) -> str:
    """Return the type and the values of a setting, and how it may be altered."""
    parts = [key.type.name.lower(), *filter(None, [_values(key)])]
    if key.default is not None:
        parts.append(f"default {code(key.default) or 'empty'}")
    if is_broker and key.update is not UpdateMode.READ_ONLY:
        parts.append(f"may be altered, {key.update.value}")
    return "; ".join(parts)


def _values(key: ConfigKey) -> str:
    if key.choices:
        return ", ".join(map(code, key.choices))
    low, high = (None if each is None else f"{each:.15g}" for each in (key.minimum, key.maximum))
    if low is None and high is None:
        return ""
    text = f"{low} to {high}" if low and high else f"from {low}" if low else f"to {high}"
    return f"{text}, or -1" if key.or_minus_one else text
