"""Requests and responses of any API as text, by the declarations of their messages.

    c1> CreateTopics v7 topics=[{name: @sales, num_partitions: 3}] validate_only=true
    c1< CreateTopics v7 topics=[{name: @sales, num_partitions: 3, error_code: ok}]

A field has the name of its declaration (`protocol/messages`). In a request, fields that are left
out have their default, or zero; in a response the fields of other versions are left out, and so
are empty tagged fields. `@sales` is a name of this run, such as a topic or a group; for a field
that holds an id it is the id of that topic. The group APIs have a shorter form in `requests.py`
and `responses.py`.
"""

from typing import Any

from coterie.conversation.batches import records_bytes, records_tree
from coterie.conversation.names import Names
from coterie.conversation.syntax import (
    RequestLine,
    TranscriptError,
    fields_of_line,
    format_list,
    format_map,
    parse_list,
    parse_map,
    quote,
    unquote,
)
from coterie.protocol.api_keys import ApiKey
from coterie.protocol.apis import request_class, response_class
from coterie.protocol.errors import ErrorCode
from coterie.protocol.fields import Declaration, uuid_text
from coterie.protocol.schema import FieldType, WireField, fields_of
from coterie.protocol.wire import ZERO_UUID, Message

API_KEYS = {key.kafka_name: key for key in ApiKey}

# An id that no topic has.
UNKNOWN_ID = bytes(range(16))
_OWN = "@"
# The fields of groups and transactional ids, which have a coordinator.
_COORDINATED = ("coordinator_keys", "group_id", "key", "transactional_id", "transactional_ids")
_ERROR_FIELD = "error_code"
_INTEGERS = ("int8", "int16", "int32", "int64", "uint16")

Tree = Any
"""A value to compare: a text, a list, or a dictionary by the names of fields."""


def build_structure(line: RequestLine, names: Names) -> Message:
    """Return the request message of a line; options of the frame (`wire=`) are not part of it.

    Raises:
        TranscriptError: unknown API or field, or a malformed value.
    """
    if line.api not in API_KEYS:
        raise TranscriptError(f"{line.api} is not an API")
    cls = request_class(API_KEYS[line.api])
    message: Message = _build(cls, fields_of_line(line).named, names)
    return message


def _build(cls: type[Declaration], texts: dict[str, str], names: Names) -> Any:
    values = {}
    for field in fields_of(cls):
        if field.name in texts:
            text = texts.pop(field.name)
            if field.name in _COORDINATED:
                _place(text, names)
            values[field.name] = _value(field.type, text, names)
        elif field.required:
            values[field.name] = [] if field.type.element is not None else field.type.zero
            if field.type.struct is not None and not field.type.optional:
                values[field.name] = _build(field.type.struct, {}, names)
    if texts:
        raise TranscriptError(f"{cls.__name__} has no field {', '.join(texts)}")
    return cls(**values)


def _place(text: str, names: Names) -> None:
    """Choose the names of groups and transactional ids before they are sent."""
    for item in map(unquote, parse_list(text)):
        if item.startswith(_OWN):
            names.group(item.removeprefix(_OWN))


def _value(field_type: FieldType, text: str, names: Names) -> Any:
    if text == "null" and field_type.optional:
        return None
    if field_type.element is not None:
        return [_value(field_type.element, item, names) for item in parse_list(text)]
    if field_type.struct is not None:
        return _build(field_type.struct, parse_map(text), names)
    assert field_type.wire is not None, field_type
    return _scalar(field_type.wire.kind, text, names)


def _scalar(kind: str, text: str, names: Names) -> Any:
    if kind == "boolean":
        return text == "true"
    if kind in _INTEGERS:
        return ErrorCode[text].value if text in ErrorCode.__members__ else int(text, 0)
    if kind == "float64":
        return float(text)
    if kind == "records":
        return records_bytes(text)
    if kind == "bytes":
        return bytes.fromhex(unquote(text).removeprefix("0x"))
    if kind == "uuid":
        if text == "unknown":
            return UNKNOWN_ID
        return ZERO_UUID if text == "zero" else names.topic_id(text.removeprefix("@"))
    plain = unquote(text)
    if plain.startswith(_OWN):
        return names.own(plain[1:])
    count, of, piece = plain.partition(" of ")
    return int(count) * piece if of and count.isdigit() else plain


def tree_of(message: Declaration, version: int, names: Names) -> dict[str, Tree]:
    """Return what a message carries in a version, as values to compare."""
    tree: dict[str, Tree] = {}
    for field in fields_of(type(message)):
        if field.present(version):
            tree[field.name] = _tree(
                field, field.type, getattr(message, field.name), version, names
            )
    return tree


def _tree(field: WireField, kind: FieldType, value: Any, version: int, names: Names) -> Tree:
    if kind.wire is not None and kind.wire.kind == "records":
        return records_tree(value)
    if value is None:
        return "null"
    if kind.element is not None:
        return [_tree(field, kind.element, each, version, names) for each in value]
    if kind.struct is not None:
        return tree_of(value, version, names)
    assert kind.wire is not None, kind
    if kind.wire.kind == "boolean":
        return "true" if value else "false"
    if kind.wire.kind in _INTEGERS:
        return error_name(value) if field.name.endswith(_ERROR_FIELD) else str(value)
    if kind.wire.kind == "float64":
        return str(value)
    if kind.wire.kind == "bytes":
        return f"0x{value.hex()}"
    if kind.wire.kind == "uuid":
        return "zero" if value == ZERO_UUID else _id_text(value, names)
    return names.own_text(value)


def _id_text(value: bytes, names: Names) -> str:
    if value == UNKNOWN_ID:
        return "unknown"
    topic = names.known_topic(value)
    return uuid_text(value) if topic is None else f"@{topic}"


def error_name(code: int) -> str:
    """Return `ok`, the name of an error, or its number if it has no name."""
    if code == ErrorCode.NONE:
        return "ok"
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)


def error_text(code: int) -> str:
    """Return `ok`, or the name of the error."""
    name = error_name(code)
    return f"error {code}" if name == str(code) else name


def tree_text(tree: Tree) -> str:
    """Return a value as a transcript shows it."""
    if isinstance(tree, dict):
        return format_map([(name, tree_text(value)) for name, value in tree.items()])
    if isinstance(tree, list):
        return format_list([tree_text(value) for value in tree])
    return quote(str(tree).replace('"', "'"))


def response_type(api: str) -> type[Message]:
    """Return the class of the responses of an API."""
    return response_class(API_KEYS[api])
