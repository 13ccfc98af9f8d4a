"""Changes of settings of topics, brokers and groups."""

from collections.abc import Mapping
from typing import Any

from coterie.client.cluster import Cluster
from coterie.client.configs import (
    DEFAULT_SOURCE,
    Change,
    Setting,
    alter_settings,
    describe_settings,
)
from coterie.client.errors import ClientError
from coterie.client.names import counted
from coterie.console.changes import fields as f
from coterie.console.changes.plan import (
    Plan,
    Row,
    arguments,
    command_line,
    refusal_of,
)
from coterie.console.changes.verb import Verb
from coterie.protocol.messages.incremental_alter_configs import DELETE, SET
from coterie.server.network.http_errors import Refused

_KINDS = ("topics", "brokers", "groups", "broker-loggers", "client-metrics")
# Where a setting of a resource comes from once it is set for it.
_OWN_SOURCE = {
    "topics": "topic",
    "brokers": "broker",
    "groups": "group",
    "broker-loggers": "logger",
    "client-metrics": "client-metrics",
}


def _plan_alter(cluster: Cluster, fields: Mapping[str, Any]) -> Plan:
    kind, name = fields["kind"], fields["name"]
    sets, deletes = fields.get("set", {}), fields.get("delete", [])
    if not sets and not deletes:
        raise Refused("BadRequest", "set: at least one setting to set or to delete is wanted")
    both = sorted(sets.keys() & set(deletes))
    if both:
        raise Refused("BadRequest", f"delete: {both[0]} is set, too")
    keys = [*sets, *deletes]
    described = describe_settings(cluster, kind, [name], keys, everything=True)
    known = {each.name: each for of in described for each in of.settings}
    rows = [_row(kind, name, key, known.get(key), sets) for key in keys]
    changes = [Change(key, SET, value) for key, value in sets.items()]
    changes += [Change(key, DELETE, None) for key in deletes]
    refused = []
    try:
        alter_settings(cluster, kind, name, changes, dry_run=True)
    except ClientError as error:
        refused.append(refusal_of(name, error))
    words = [word for key, value in sets.items() for word in ("--set", f"{key}={value}")]
    words += [word for key in deletes for word in ("--delete", key)]
    return Plan(
        f"Alter {counted(len(rows), 'setting')} of {name}.",
        rows,
        command_line("configs", "alter", kind, *words, *arguments([name])),
        rows,
        [] if refused else [(kind, name, changes)],
        refused,
    )


def _row(kind: str, name: str, key: str, now: Setting | None, sets: Mapping[str, str]) -> Row:
    """Return a setting with the keys of `configs describe`, and what it would become.

    `new_value` is None where the broker does not say to which value it returns.
    """
    new_value, new_source = sets.get(key), _OWN_SOURCE[kind]
    if key not in sets:
        own = _OWN_SOURCE[kind]
        below = [each for each in (now.synonyms if now else []) if each.source != own]
        new_source = below[0].source if below else DEFAULT_SOURCE
        # A synonym may have another unit, which its last word names: hours for milliseconds.
        is_same = bool(below) and below[0].name.split(".")[-1] == key.rsplit(".", maxsplit=1)[-1]
        new_value = below[0].value if is_same else None
    return {
        "type": kind,
        "name": name,
        "key": key,
        "value": now.value if now else None,
        "source": now.source if now else None,
        "sensitive": now.sensitive if now else False,
        "new_value": new_value,
        "new_source": new_source,
    }


def _alter(cluster: Cluster, shown: Plan) -> list[Row]:
    ((kind, name, changes),) = shown.targets
    try:
        alter_settings(cluster, kind, name, changes)
    except ClientError as error:
        return [{"type": kind, "name": name, "altered": False, "error": error.cause}]
    return [{"type": kind, "name": name, "altered": True, "error": None}]


VERBS = (
    Verb(
        "alter-settings",
        "Change settings of one topic, broker or group: all of the changes, or none.",
        (
            f.choice("kind", "What it is.", *_KINDS, is_required=True),
            f.name("name", "Its name, or the id of the broker."),
            f.texts_by_name("set", "New values by the names of settings."),
            f.names("delete", "Settings that return to their default.", is_required=False),
        ),
        _plan_alter,
        _alter,
    ),
)
