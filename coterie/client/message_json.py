"""Decoded messages as JSON values, for rows of commands and of the console."""

from typing import Any

from coterie.protocol.fields import uuid_text
from coterie.protocol.schema import FieldType, fields_of
from coterie.protocol.wire import Struct


def jsonable(value: Any, *, readable_ids: bool = False) -> Any:
    """Return a decoded message as JSON values: structures by field name, bytes in hexadecimal.

    Args:
        value: a message, or a value in one.
        readable_ids: whether UUIDs are written as Kafka prints them instead of in hexadecimal.
    """
    if isinstance(value, Struct):
        fields = {}
        for field in fields_of(type(value)):
            item = getattr(value, field.name)
            is_id = readable_ids and isinstance(item, bytes) and _is_uuid(field.type)
            fields[field.name] = (
                uuid_text(item) if is_id else jsonable(item, readable_ids=readable_ids)
            )
        return fields
    if isinstance(value, list):
        return [jsonable(item, readable_ids=readable_ids) for item in value]
    return value.hex() if isinstance(value, bytes) else value


def _is_uuid(kind: FieldType) -> bool:
    return kind.wire is not None and kind.wire.kind == "uuid"
