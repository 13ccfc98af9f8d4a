"""Schemas of a registry by their ids, each with what reads its values.

A schema never changes, so it is read once. An id that the registry does not know is asked for again
after a while, since it may be registered later; a registry that does not answer is left alone for
some seconds, whatever id is wanted, so that a page of 500 records waits for it once
[registry/cache].
"""

import json
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from coterie.client.registry.address import Reference, Registered, RegistryAddress, RegistryFailed

# Of a cluster with more schemas those that were used longest ago are read again.
_MOST_SCHEMAS = 1_000
# A schema with more is no schema of anybody.
MOST_REFERENCES = 100
_UNKNOWN_S = 30.0
_AWAY_S = 5.0
_EXTRA = "pip install 'coterie[registry]'"

# Returns the value in a body as JSON, and the name of its type; it raises errors of libraries.
Read = Callable[[bytes], tuple[Any, str | None]]


class Schema(NamedTuple):
    """A schema, or the reason why there is none.

    Attributes:
        kind: AVRO, JSON or PROTOBUF; None if that is not known.
        read: reads values; None if there is an error.
        error: why values cannot be read.
    """

    kind: str | None
    read: Read | None
    error: str = ""


class Schemas:
    """The schemas of a registry; threads share them."""

    def __init__(
        self, address: RegistryAddress, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Take the address; nothing is asked yet.

        Args:
            address: where the registry is.
            clock: returns seconds.
        """
        self._address = address
        self._clock = clock
        self._lock = threading.Lock()
        # Those that were used last come last; each with the time from which on it is asked again.
        self._known: dict[int, tuple[Schema, float | None]] = {}
        self._away: tuple[Schema, float] | None = None

    def get(self, schema_id: int) -> Schema:
        """Return a schema; one with an error if it cannot be had."""
        with self._lock:
            known = self._known.pop(schema_id, None)
            if known is not None and (known[1] is None or self._clock() < known[1]):
                self._known[schema_id] = known
                return known[0]
            if self._away is not None and self._clock() < self._away[1]:
                return self._away[0]
            return self._read(schema_id)

    def _read(self, schema_id: int) -> Schema:
        until_s = None
        try:
            schema = _schema(self._address, schema_id)
        except RegistryFailed as error:
            schema = Schema(None, None, str(error))
            if not error.has_answered:
                self._away = schema, self._clock() + _AWAY_S
                return schema
            until_s = self._clock() + _UNKNOWN_S
        self._known[schema_id] = schema, until_s
        if len(self._known) > _MOST_SCHEMAS:
            del self._known[next(iter(self._known))]
        return schema


def _schema(address: RegistryAddress, schema_id: int) -> Schema:
    """Read a schema and all that it needs.

    Raises:
        RegistryFailed: the registry does not answer, or does not have one of them.
    """
    found = address.by_id(schema_id)
    make = _KINDS.get(found.kind)
    if make is None:
        return Schema(found.kind, None, f"The schema is of an unknown kind: {found.kind}.")
    try:
        return Schema(found.kind, make(address, schema_id, found))
    except ImportError:
        return Schema(found.kind, None, f"Values of {found.kind} need a library: {_EXTRA}.")
    except ValueError as error:
        return Schema(found.kind, None, f"Schema {schema_id} cannot be used: {error}.")


def _avro(address: RegistryAddress, _: int, found: Registered) -> Read:
    from coterie.client.registry.avro_values import avro_reader

    needed = _needed(address, found, as_descriptor=False)
    return avro_reader(found.text, [each.text for _, each in needed])


def _protobuf(address: RegistryAddress, schema_id: int, found: Registered) -> Read:
    from coterie.client.registry.protobuf_values import protobuf_reader

    needed = _needed(address, found, as_descriptor=True)
    text = address.by_id(schema_id, as_descriptor=True).text
    return protobuf_reader(text, [(name, each.text) for name, each in needed])


def _json(_: RegistryAddress, __: int, found: Registered) -> Read:
    # The value is JSON already. Whether it is right by its schema was the writer's question.
    try:
        title = json.loads(found.text).get("title")
    except (ValueError, AttributeError, RecursionError):
        title = None
    name = title if isinstance(title, str) else None
    return lambda body: (json.loads(body), name)


_KINDS: Mapping[str, Callable[[RegistryAddress, int, Registered], Read]] = {
    "AVRO": _avro,
    "JSON": _json,
    "PROTOBUF": _protobuf,
}


def _needed(
    address: RegistryAddress, found: Registered, *, as_descriptor: bool
) -> list[tuple[str, Registered]]:
    """Return the schemas that one needs, each after those that it needs itself.

    Raises:
        ValueError: there are too many.
    """
    ordered: dict[Reference, Registered] = {}
    begun: set[Reference] = set()

    def add(schema: Registered) -> None:
        for each in schema.references:
            if each in begun:
                continue
            if len(begun) == MOST_REFERENCES:
                raise ValueError(f"it needs more than {MOST_REFERENCES} others")
            begun.add(each)
            needed = address.by_reference(each, as_descriptor=as_descriptor)
            add(needed)
            ordered[each] = needed

    add(found)
    return [(each.name, schema) for each, schema in ordered.items()]
