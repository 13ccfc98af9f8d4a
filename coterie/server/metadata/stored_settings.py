"""The file of settings in a data directory, `coterie-settings.json` [topics/settings-file].

Kafka keeps these values in its metadata log: the settings of topics, the settings of the broker
that clients altered, and the next block of producer ids. They are few and rarely written, so the
file is replaced as a whole.
"""

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from coterie.protocol.fields import uuid_text
from coterie.server.config.keys import CLIENT_METRICS_RESOURCE, GROUP_RESOURCE
from coterie.storage.checkpoints import read_file, replace_file
from coterie.storage.errors import CorruptLog
from coterie.storage.filesystem import FileSystem

SETTINGS_FILE = "coterie-settings.json"
# Version 1 had the settings of topics by name, and no checksum.
_FORMAT_VERSION = 2
_CHECKSUM = "crc32"
# The keys of the settings of other resources, by their type.
_RESOURCE_KEYS = {CLIENT_METRICS_RESOURCE: "client_metrics", GROUP_RESOURCE: "groups"}


# What quotas are for: pairs of a type and a name, which is None for the default of the type.
QuotaEntity = tuple[tuple[str, str | None], ...]


class StoredTopic(NamedTuple):
    """What is stored about one topic.

    Attributes:
        name: its name.
        settings: its own settings.
        has_own_id: whether its id is stored only here, because Kafka before 2.8 wrote its files.
        replicas, epochs: the brokers and the leader epoch of each partition; empty if there was one
            broker.
    """

    name: str
    settings: Mapping[str, str]
    has_own_id: bool = False
    replicas: Sequence[Sequence[int]] = ()
    epochs: Sequence[int] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to store."""
        return not (self.settings or self.has_own_id or self.replicas)


class StoredSettings(NamedTuple):
    """The contents of the file.

    Attributes:
        next_producer_id: the first producer id that no start has reserved.
        broker: settings of the broker that clients altered, of the first one of several.
        cluster: settings of all brokers that clients altered.
        resources: settings of groups and of subscriptions of client metrics, by the type of the
            resource and its name.
        topics: topics with settings of their own, by topic id.
        by_name: the same by name, in a file of version 1.
        features: levels of features that were chosen, by name.
        features_epoch: how often they were changed.
        quotas: the quotas of each entity, by their keys.
        brokers: altered settings of further brokers, by node id.
    """

    next_producer_id: int = 0
    broker: Mapping[str, str] = {}
    cluster: Mapping[str, str] = {}
    resources: Mapping[int, Mapping[str, Mapping[str, str]]] = {}
    topics: Mapping[bytes, StoredTopic] = {}
    by_name: Mapping[str, Mapping[str, str]] = {}
    features: Mapping[str, int] = {}
    features_epoch: int = 0
    quotas: Mapping[QuotaEntity, Mapping[str, float]] = {}
    brokers: Mapping[int, Mapping[str, str]] = {}

    def overrides(self, name: str, topic_id: bytes) -> Mapping[str, str]:
        """Return a topic's own settings.

        They belong to its id, since an earlier topic of the same name may have had others
        [topics/settings-file].
        """
        found = self.topics.get(topic_id if any(topic_id) else self.own_id(name) or topic_id)
        return self.by_name.get(name, {}) if found is None else found.settings

    def own_id(self, name: str) -> bytes | None:
        """Return the id of a topic whose files have none; None if it is not stored."""
        ids = (each for each, topic in self.topics.items() if topic.has_own_id)
        return next((each for each in ids if self.topics[each].name == name), None)


def read_settings(filesystem: FileSystem, directory: str) -> StoredSettings | None:
    """Read the file of a data directory; return None if there is none.

    Raises:
        CorruptLog: it is damaged, or has another version.
        OSError: it cannot be read.
    """
    path = f"{directory}/{SETTINGS_FILE}"
    text = read_file(filesystem, path)
    if text is None:
        return None
    try:
        stored = json.loads(text)
    except ValueError as error:
        raise CorruptLog(path, 0, f"this is not JSON: {error}") from None
    version = stored.get("version") if isinstance(stored, dict) else None
    if version not in (1, _FORMAT_VERSION):
        raise CorruptLog(path, 0, f"its version is not {_FORMAT_VERSION}")
    if version != 1 and stored.pop(_CHECKSUM, None) != _checksum(stored):
        raise CorruptLog(path, 0, f"its contents do not match their checksum, {_CHECKSUM}")
    topics = stored.get("topics", {})
    settings = StoredSettings(
        int(stored.get("next_producer_id", 0)),
        stored.get("broker", {}),
        stored.get("cluster", {}),
        features=stored.get("features", {}),
        features_epoch=stored.get("features_epoch", 0),
        resources={kind: stored.get(key, {}) for kind, key in _RESOURCE_KEYS.items()},
        quotas={tuple(each["entity"].items()): each["values"] for each in stored.get("quotas", ())},
        brokers={int(node_id): each for node_id, each in stored.get("brokers", {}).items()},
    )
    if version == 1:
        return settings._replace(by_name=topics)
    return settings._replace(
        topics={
            base64.urlsafe_b64decode(f"{topic_id}=="): StoredTopic(
                each["name"],
                each["settings"],
                each.get("has_own_id", False),
                each.get("replicas", ()),
                each.get("epochs", ()),
            )
            for topic_id, each in topics.items()
        }
    )


def write_settings(
    filesystem: FileSystem, directory: str, settings: StoredSettings, *, durable: bool
) -> None:
    """Replace the file of a data directory.

    Args:
        filesystem: where the directory is.
        directory: the data directory.
        settings: the new contents.
        durable: whether the contents must survive a loss of power.

    Raises:
        OSError: it cannot be written.
    """
    assert not settings.by_name, "settings are stored by topic id"
    assert settings.resources.keys() <= _RESOURCE_KEYS.keys(), "the file has a key for each type"
    stored: dict[str, Any] = {
        "version": _FORMAT_VERSION,
        "next_producer_id": settings.next_producer_id,
        "broker": settings.broker,
        "cluster": settings.cluster,
        **{
            key: settings.resources[kind]
            for kind, key in _RESOURCE_KEYS.items()
            if settings.resources.get(kind)
        },
        "topics": {
            uuid_text(topic_id): {"name": topic.name, "settings": topic.settings}
            | ({"has_own_id": True} if topic.has_own_id else {})
            | ({"replicas": topic.replicas, "epochs": topic.epochs} if topic.replicas else {})
            for topic_id, topic in settings.topics.items()
        },
    }
    if settings.features_epoch:
        stored["features"] = settings.features
        stored["features_epoch"] = settings.features_epoch
    if settings.quotas:
        stored["quotas"] = [
            {"entity": dict(entity), "values": dict(values)}
            for entity, values in settings.quotas.items()
        ]
    if others := {str(node_id): each for node_id, each in settings.brokers.items() if each}:
        stored["brokers"] = others
    stored[_CHECKSUM] = _checksum(stored)
    text = json.dumps(stored, indent=1) + "\n"
    replace_file(filesystem, f"{directory}/{SETTINGS_FILE}", text, durable=durable)


def _checksum(stored: dict[str, Any]) -> str:
    """Return the checksum of the contents, which does not depend on how they are written."""
    text = json.dumps(stored, sort_keys=True, separators=(",", ":"))
    return f"{zlib.crc32(text.encode()):08x}"
