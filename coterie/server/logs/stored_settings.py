"""The file of settings in a data directory, `coterie-settings.json` [topics/settings-file].

Kafka keeps these values in its metadata log: the settings of topics, the settings of the broker
that clients altered, and the next block of producer ids. They are few and rarely written, so the
file is replaced as a whole.
"""

import json
from collections.abc import Mapping
from typing import NamedTuple

from coterie.storage.checkpoints import read_file, replace_file
from coterie.storage.errors import CorruptLog
from coterie.storage.filesystem import FileSystem

SETTINGS_FILE = "coterie-settings.json"
_FORMAT_VERSION = 1


class StoredSettings(NamedTuple):
    """The contents of the file.

    Attributes:
        next_producer_id: the first producer id that no start has reserved.
        broker: settings of the broker that clients altered.
        cluster: settings of all brokers that clients altered.
        topics: each topic's own settings, by its name.
    """

    next_producer_id: int
    broker: Mapping[str, str]
    cluster: Mapping[str, str]
    topics: Mapping[str, Mapping[str, str]]


def read_settings(filesystem: FileSystem, directory: str) -> StoredSettings | None:
    """Read the file of a data directory; return None if there is none.

    Raises:
        CorruptLog: it is not JSON, or has another version.
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
    if stored.get("version") != _FORMAT_VERSION:
        raise CorruptLog(path, 0, f"its version is not {_FORMAT_VERSION}")
    return StoredSettings(
        int(stored.get("next_producer_id", 0)),
        stored.get("broker", {}),
        stored.get("cluster", {}),
        stored.get("topics", {}),
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
    stored = {
        "version": _FORMAT_VERSION,
        "next_producer_id": settings.next_producer_id,
        "broker": settings.broker,
        "cluster": settings.cluster,
        "topics": settings.topics,
    }
    text = json.dumps(stored, indent=1) + "\n"
    replace_file(filesystem, f"{directory}/{SETTINGS_FILE}", text, durable=durable)
