"""The directories of partitions: their names, and the file with the topic's id in each.

Everything that searches a data directory for partitions uses `partition_of`: the server, the tools
that read a directory without opening it, and the tests [log/directory-layout].
"""

import base64
import re

from coterie.protocol.fields import uuid_text
from coterie.storage.errors import CorruptLog
from coterie.storage.seals import open_lines, seal_lines

METADATA_FILE = "partition.metadata"
# In a deleted partition's directory whose name has no room for the topic's.
NAME_FILE = "coterie-topic-name"

_LEGAL_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_PARTITION = re.compile(rf"({_LEGAL_TOPIC.pattern})-(0|[1-9]\d{{0,9}})")
_DELETED = r"(.*)-\d+\.([0-9a-f]{32})-delete"
# The limit of most file systems.
_MAX_NAME_BYTES = 255
_ID_BYTES = 16


def directory_name(topic: str, partition: int) -> str:
    """Return the name of a partition's directory.

    Raises:
        ValueError: the topic's name is illegal: as a path it could lead out of the data directory.
    """
    if not _LEGAL_TOPIC.fullmatch(topic) or topic in (".", "..") or partition < 0:
        raise ValueError(f"{topic!r}-{partition} is not a legal name for a partition's directory")
    return f"{topic}-{partition}"


def partition_of(name: str) -> tuple[str, int] | None:
    """Return topic and number of the partition whose directory has this name, None if none has.

    `__cluster_metadata-0` is included, although it is not a topic.
    """
    match = _PARTITION.fullmatch(name)
    return None if match is None else (match[1], int(match[2]))


def deleted_name(topic: str, partition: int, topic_id: bytes) -> str:
    """Return the name that a partition's directory gets when its topic is deleted.

    It is Kafka's name for it, with the topic shortened if the name would be too long. Kafka makes
    the name unique with a random id; we use the id of the topic, which is as unique.
    """
    assert len(topic_id) == _ID_BYTES, "a topic id has 16 bytes"
    suffix = f"-{partition}.{topic_id.hex()}-delete"
    name = topic[: _MAX_NAME_BYTES - len(suffix)] + suffix
    assert len(name) <= _MAX_NAME_BYTES, "a file system accepts the name"
    assert deleted_partition(name) is not None, "a start recognizes the name"
    return name


def deleted_partition(name: str) -> tuple[str, bytes] | None:
    """Return topic and id in the name of a deleted partition's directory; None for other names.

    The topic may be shortened.
    """
    match = re.fullmatch(_DELETED, name)
    return None if match is None else (match[1], bytes.fromhex(match[2]))


def metadata_text(topic_id: bytes) -> str:
    """Return the contents of `partition.metadata`."""
    assert len(topic_id) == _ID_BYTES, "a topic id has 16 bytes"
    return seal_lines(METADATA_FILE, f"version: 0\ntopic_id: {uuid_text(topic_id)}")


def parse_metadata(path: str, text: str) -> bytes:
    """Return the topic id in the contents of `partition.metadata`.

    Args:
        path: the file, for errors.
        text: its contents.

    Raises:
        CorruptLog: the contents are not version 0 with a topic id.
    """
    text = open_lines(path, text)
    fields = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
    try:
        topic_id = base64.urlsafe_b64decode(fields["topic_id"] + "==")
    except (KeyError, ValueError):
        topic_id = b""
    if fields.get("version") != "0" or len(topic_id) != _ID_BYTES:
        raise CorruptLog(path, 0, "version 0 and a topic id are expected")
    return topic_id
