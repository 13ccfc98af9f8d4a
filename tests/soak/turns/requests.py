"""Requests for the hunt: of given fields, or the largest that an API allows.

The largest ones name what exists: groups `g0`, `g1`, ..., transactional ids `x0`, ..., topics `s0`,
... of one partition and a topic `w` of many. There are two shapes: *wide* ones have many elements
in their first array, *deep* ones a single element there, and many within it.
"""

import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from coterie.protocol.api_keys import SERVED_VERSIONS, ApiKey
from coterie.protocol.apis import request_class
from coterie.protocol.declare import REQUEST_ELEMENT_BUDGET
from coterie.protocol.fields import Declaration
from coterie.protocol.frames import encode_request
from coterie.protocol.messages.produce import ProduceRequest
from coterie.protocol.schema import FieldType, WireField, fields_of
from tests.unit.server.produced import batch

CLIENT_ID = "turns"
# The largest number of elements that a request may have, and some room for other arrays.
ELEMENTS = REQUEST_ELEMENT_BUDGET - 10

# Later versions name topics by id.
_BY_NAME = {
    ApiKey.FETCH: 12,
    ApiKey.PRODUCE: 12,
    ApiKey.OFFSET_COMMIT: 9,
    ApiKey.OFFSET_FETCH: 9,
    ApiKey.DELETE_TOPICS: 5,
}

# What a string names, by the name of its field; the number of the element is appended.
_TEXTS = {
    "group_id": "g",
    "group_ids": "g",
    "groups": "g",
    "groups_names": "g",
    "coordinator_keys": "g",
    "transactional_id": "x",
    "transactional_ids": "x",
    "topic": "s",
    "topic_name": "s",
    "topic_names": "s",
    "name": "s",
    "resource_name": "s",
    "topics": "s",
    "subscribed_topic_names": "s",
    "entity_name": "user",
}
# Values that are the same in each element, by the name of their field.
_VALUES: dict[str, Any] = {
    "acks": -1,
    "allow_auto_topic_creation": False,
    "committed_offset": 5,
    "committed_metadata": "metadata",
    "count": 2,
    "current_leader_epoch": -1,
    "entity_type": "user",
    "generation_id": -1,
    "generation_id_or_member_epoch": -1,
    "isolation_level": 0,
    "key": "producer_byte_rate",
    "leader_epoch": 0,
    "log_start_offset": -1,
    "max_bytes": 50 << 20,
    "match_type": 1,
    "max_wait_ms": 0,
    "min_bytes": 0,
    "num_partitions": 1,
    "partition_max_bytes": 1 << 20,
    "member_id": "",
    "protocol_type": "consumer",
    "replica_id": -1,
    "replication_factor": 1,
    "rebalance_timeout_ms": 10_000,
    "resource_type": 2,
    "response_partition_limit": 2_000,
    "session_epoch": -1,
    "session_timeout_ms": 10_000,
    "timeout_ms": 60_000,
    "timestamp": -1,
    "transaction_timeout_ms": 60_000,
    "validate_only": False,
    "value": "604800000",
}
_NOT_FILLED = {"assignments", "configuration_keys", "replica_state"}
_RECORDS = batch(b"value", timestamp_ms=time.time_ns() // 1_000_000)
_COUNTED = ("partition", "index")
_NAMES_OF_TOPICS = {"topic", "name", "topic_name", "resource_name"}


def newest(api: ApiKey) -> int:
    """Return the newest version of an API in which topics have names."""
    return _BY_NAME.get(api, SERVED_VERSIONS[api][1])


def frame(api: ApiKey, version: int, **fields: Any) -> bytes:
    """Return the frame of a request; structures are dictionaries, what is missing is empty."""
    return encode_request(_made(request_class(api), fields), version, 1, CLIENT_ID)


def _made(cls: type[Declaration], values: dict[str, Any]) -> Any:
    unknown = values.keys() - {field.name for field in fields_of(cls)}
    assert not unknown, f"{cls.__name__} has no {unknown}"
    return cls(**{field.name: _given(field, values) for field in fields_of(cls)})


def _given(field: WireField, values: dict[str, Any]) -> Any:
    if field.name not in values:
        return field.default
    value, element = values[field.name], field.type.element
    if value is not None and element is not None and element.struct is not None:
        return [_made(element.struct, each) for each in value]
    return value


def has_arrays(api: ApiKey) -> bool:
    """Return whether a request has arrays, so that it can be large."""
    return _first_array(request_class(api), newest(api)) is not None


def is_nested(api: ApiKey) -> bool:
    """Return whether the first array of a request has elements with arrays."""
    return _inner_array(request_class(api), newest(api)) is not None


def names_partitions(api: ApiKey) -> bool:
    """Return whether the inner array of a nested request names the partitions of a topic."""
    inner = _inner_array(request_class(api), newest(api))
    return inner is not None and "partition" in inner.name


def largest(
    api: ApiKey,
    *,
    deep: bool = False,
    elements: int = ELEMENTS,
    first: int = 0,
    version: int | None = None,
    values: Mapping[str, Any] = MappingProxyType({}),
) -> bytes:
    """Return the largest request of an API.

    Args:
        api: the API.
        deep: one element in the first array, and many within it.
        elements: how many all arrays have together.
        first: the number of the first element.
        version: of the request; by default the newest one in which topics have names.
        values: of fields, by their names, wherever they are.
    """
    version, cls = newest(api) if version is None else version, request_class(api)
    made = _Largest(version, values, deep=deep)
    if deep:
        within = made.elements_each(_element(_first_array(cls, version))) - 1
        outer, inner = 1, (elements - 1) // max(within, 1)
    else:
        outer, inner = elements // max(made.elements_each(cls) - 1, 1), 1
    request = made.filled(cls, first, outer, inner)
    return encode_request(request, version, 1, CLIENT_ID)


def _inner_array(cls: type[Declaration], version: int) -> WireField | None:
    struct = _element(_first_array(cls, version))
    return None if struct is None else _first_array(struct, version)


def _element(field: WireField | None) -> type[Declaration] | None:
    return None if field is None or field.type.element is None else field.type.element.struct


def _first_array(cls: type[Declaration], version: int) -> WireField | None:
    arrays = (
        field
        for field in fields_of(cls)
        if field.type.element is not None
        and field.present(version)
        and field.declared.tag is None
        and field.name not in _NOT_FILLED
    )
    return next(arrays, None)


class _Largest:
    """Fills the first array of each structure."""

    def __init__(self, version: int, values: Mapping[str, Any], *, deep: bool) -> None:
        self._version = version
        self._given = values
        self._deep = deep

    def elements_each(self, cls: type[Declaration] | None) -> int:
        """Return how many elements a structure and all within it are; None is a scalar."""
        array = None if cls is None else _first_array(cls, self._version)
        return 1 if array is None else 1 + self.elements_each(_element(array))

    def filled(self, cls: type[Declaration], number: int, *counts: int) -> Any:
        """Return a structure; `counts` are the elements of its array and of those within it."""
        array = _first_array(cls, self._version)
        values = {}
        for field in fields_of(cls):
            element = field.type.element
            if field.name in _NOT_FILLED or field.type.struct or (element and field is not array):
                values[field.name] = field.default
            elif element is None:
                values[field.name] = self._scalar(field.type, field, number, cls)
            else:
                count, *inner = counts or (1,)
                # The numbers of the outermost elements begin with that of the request.
                first = number if inner else 0
                values[field.name] = [
                    self._scalar(element, field, each, cls)
                    if element.struct is None
                    else self.filled(element.struct, each, *inner)
                    for each in range(first, first + count)
                ]
        if cls is ProduceRequest:
            # Transactions have requests of their own.
            values["transactional_id"] = None
        if self._deep and counts:
            values.update(dict.fromkeys(values.keys() & _NAMES_OF_TOPICS, "w"))
        values.update({name: self._given[name] for name in values.keys() & self._given.keys()})
        return cls(**values)

    def _scalar(
        self, kind: FieldType, field: WireField, number: int, cls: type[Declaration]
    ) -> Any:
        assert kind.wire is not None
        wire, name = kind.wire.kind, field.name
        if wire == "string":
            if name == "name" and "Config" in cls.__name__:
                return "retention.ms"
            if name in _TEXTS:
                return f"{_TEXTS[name]}{number}"
            return _VALUES.get(name, None if kind.optional else "")
        if not isinstance(_VALUES.get(name, ""), str):
            return _VALUES[name]
        if self._deep and any(word in name for word in _COUNTED):
            return number
        if wire == "records":
            return _RECORDS
        if wire == "float64":
            return 1e9
        if kind is field.type and not field.required:
            return field.default
        return None if kind.optional else kind.wire.zero
