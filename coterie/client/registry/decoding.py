"""A part of a record, decoded by the schema that its bytes name.

Bytes without the form of `wire` are not of a registry, and nobody asks it for them. Those with it
may still be something else: an id that is unknown, or bytes that its schema does not fit, give a
reason, and the part stays what it is [registry/decoding].
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from coterie.client.registry.address import RegistryAddress
from coterie.client.registry.schemas import Schemas
from coterie.client.registry.wire import Framed, framed

_SHOWN_CHARACTERS = 300


class Decoded(NamedTuple):
    """A part of a record that names a schema.

    Attributes:
        schema_id: the id.
        kind: AVRO, JSON or PROTOBUF; None if that is not known.
        name: of the type of the value; None if it has none.
        value: as JSON; None with an error.
        error: why there is no value; None if there is one.
    """

    schema_id: int
    kind: str | None
    name: str | None
    value: Any
    error: str | None

    @property
    def is_structured(self) -> bool:
        """Whether the value is an object or a list."""
        return isinstance(self.value, dict | list)

    @property
    def text(self) -> str:
        """The value as a text: one that is a text itself, and else JSON."""
        if isinstance(self.value, str):
            return self.value
        return json.dumps(self.value, ensure_ascii=False)

    def row(self) -> dict[str, Any]:
        """Return the schema as it is printed."""
        return {"id": self.schema_id, "type": self.kind, "name": self.name, "error": self.error}


class Registry:
    """Decodes the parts of records; threads share it."""

    def __init__(self, address: RegistryAddress) -> None:
        """Take where the registry is; it is asked when the first part names a schema."""
        self._schemas = Schemas(address)

    def decode(self, data: bytes | None) -> Decoded | None:
        """Return a part of a record, decoded or with the reason why not.

        Args:
            data: its bytes.

        Returns:
            None if it names no schema.
        """
        found = None if data is None else framed(data)
        return None if found is None else self._decoded(found)

    def decode_row(self, row: dict[str, Any], parts: Mapping[str, bytes | None]) -> None:
        """Put what parts of a record are into the row of a command.

        Args:
            row: it gets the schema of each part, and of a part that is decoded the value.
            parts: key and value by these names.
        """
        for name, data in parts.items():
            found = self.decode(data)
            row[f"{name}_schema"] = None if found is None else found.row()
            if found is None:
                continue
            if found.error is not None:
                row["error"] = found.error
            else:
                row[name], row[f"{name}_format"] = found.value, "json"

    def _decoded(self, found: Framed) -> Decoded:
        schema_id, body = found
        schema = self._schemas.get(schema_id)
        if schema.read is None:
            return Decoded(schema_id, schema.kind, None, None, schema.error)
        try:
            value, name = schema.read(body)
            return Decoded(schema_id, schema.kind, name, value, None)
        except Exception as error:  # noqa: BLE001 - libraries raise anything for bytes of another kind
            said = str(error) or type(error).__name__
            text = f"The bytes do not fit schema {schema_id}: {said[:_SHOWN_CHARACTERS]}"
            return Decoded(schema_id, schema.kind, None, None, f"{text.rstrip('.')}.")
