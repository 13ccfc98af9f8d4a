"""Ids that a broker makes up, paired between a recording and its replay [recording/ids].

The first time that an id of the recording and one of the replay are in the same place of an answer
they are paired. From then on a request of the recording is sent with the replay's id, and an answer
in which one of them meets another id differs.
"""

import re
from collections.abc import Iterator
from typing import Any

from coterie.protocol.schema import FieldType, WireField, fields_of
from coterie.protocol.wire import Message, Struct

# Kinds of ids by the names of fields that have the same meaning in every message.
_KINDS = {
    "member_id": "member",
    "producer_id": "producer",
    "topic_id": "topic",
    "session_id": "session",
    "cluster_id": "cluster",
    "host": "host",
    "port": "port",
    "node_id": "node",
    "broker_id": "node",
    "leader_id": "node",
    "controller_id": "node",
    "replica_nodes": "node",
    "isr_nodes": "node",
    "offline_replicas": "node",
}
# The endpoint of a member of a streams group is given by its client, and is no place of a broker.
_STREAMS, _OF_ENDPOINTS = "StreamsGroup", ("host", "port")
# Values that are no ids: they mean the same in every broker. A session has no id 0, a producer has.
_NO_IDS = (None, "", -1, bytes(16))
_NO_SESSION = 0
# Several nodes of a recording may be one node of the replay, and so may their addresses.
_MANY_TO_ONE = frozenset({"node", "host", "port"})

_UUID = re.compile(r"(.*)-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def kind_of(message: str, field: str) -> str | None:
    """Return the kind of ids that a field of a message holds; None if it holds none."""
    if field == "leader" and message == "JoinGroupResponse":
        return "member"
    if message.startswith(_STREAMS) and field in _OF_ENDPOINTS:
        return None
    return _KINDS.get(field)


def likeness(value: Any) -> Any:
    """Return what an id has in common with the id of another run: of a member id its client."""
    matched = _UUID.fullmatch(value) if isinstance(value, str) else None
    return matched[1] if matched is not None else None


class Identities:
    """The pairs of one replay."""

    def __init__(self) -> None:
        """Begin without pairs."""
        self._replayed: dict[str, dict[Any, Any]] = {}
        self._recorded: dict[str, dict[Any, Any]] = {}

    def pair(self, kind: str, recorded: Any, replayed: Any) -> bool:
        """Return whether two ids are the same thing; they are from now on if both are new."""
        if not _is_id(kind, recorded) or not _is_id(kind, replayed):
            return bool(recorded == replayed)
        forward = self._replayed.setdefault(kind, {})
        backward = self._recorded.setdefault(kind, {})
        if recorded in forward:
            return bool(forward[recorded] == replayed)
        if replayed in backward and kind not in _MANY_TO_ONE:
            return False
        forward[recorded] = replayed
        backward[replayed] = recorded
        return True

    def replayed(self, kind: str, recorded: Any) -> Any:
        """Return the replay's id for one of the recording; the same if it has no pair."""
        return self._replayed.get(kind, {}).get(recorded, recorded)

    def is_paired(self, kind: str, recorded: Any) -> bool:
        """Return whether an id of the recording has a pair, or is no id."""
        return not _is_id(kind, recorded) or recorded in self._replayed.get(kind, {})

    def substitute(self, request: Message) -> None:
        """Put the replay's ids into a request of the recording."""
        name = type(request).__name__
        for holder, field in _id_fields(request):
            kind = kind_of(name, field)
            value = getattr(holder, field)
            if kind is not None and not isinstance(value, list):
                setattr(holder, field, self.replayed(kind, value))


def _is_id(kind: str, value: Any) -> bool:
    return value not in _NO_IDS and (kind != "session" or value != _NO_SESSION)


def _id_fields(holder: Struct) -> Iterator[tuple[Struct, str]]:
    """Return the structures of a message, each with its fields that are no structures."""
    for field in fields_of(type(holder)):
        value = getattr(holder, field.name)
        if _struct_of(field) is None:
            yield holder, field.name
        elif isinstance(value, list):
            for each in value:
                yield from _id_fields(each)
        elif value is not None:
            yield from _id_fields(value)


def _struct_of(field: WireField) -> type[Any] | None:
    kind: FieldType = field.type.element or field.type
    return kind.struct
