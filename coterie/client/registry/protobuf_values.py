"""Values of Protobuf as JSON, by the file that declares their message type.

The registry gives files as descriptors, so no text of a .proto file is parsed here. JSON is that of
Protobuf itself, with the names of fields as the file has them; 64-bit numbers are texts there.
"""

import base64
import binascii
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from google.protobuf.message import DecodeError

from coterie.client.registry.wire import message_indexes

_WELL_KNOWN = "google/protobuf/"
_KNOWN = (
    "any", "api", "descriptor", "duration", "empty", "field_mask", "source_context", "struct",
    "timestamp", "type", "wrappers",
)  # fmt: skip
# It declares options only, which no value has, and registries do not give it.
_WITHOUT_VALUES = ("confluent/meta.proto",)
_MAIN = "schema.proto"


def protobuf_reader(
    text: str, references: Iterable[tuple[str, str]]
) -> Callable[[bytes], tuple[Any, str | None]]:
    """Return what reads values of a file, each with the name of its type.

    Args:
        text: the file's descriptor, as base64.
        references: the imports of the file, each name with its descriptor, and each after those
            that it needs itself.

    Raises:
        ValueError: it is no descriptor, or an import is missing.
    """
    pool = descriptor_pool.DescriptorPool()
    added: set[str] = set()
    for name, each in references:
        if name not in added:
            _add(pool, _file(each), name, added)
    main = _file(text)
    _add(pool, main, _MAIN, added)
    types: dict[tuple[int, ...], Any] = {}

    def type_of(indexes: tuple[int, ...]) -> Any:
        if indexes not in types:
            name = pool.FindMessageTypeByName(_full_name(main, indexes))
            types[indexes] = message_factory.GetMessageClass(name)
        return types[indexes]

    def read(body: bytes) -> tuple[Any, str | None]:
        indexes, data = message_indexes(body)
        message = type_of(indexes)()
        try:
            message.ParseFromString(data)
        except DecodeError as error:
            raise ValueError(str(error)) from error
        found = json_format.MessageToDict(
            message, preserving_proto_field_name=True, descriptor_pool=pool
        )
        return found, message.DESCRIPTOR.full_name

    return read


def _file(text: str) -> Any:
    try:
        return descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError, DecodeError):
        raise ValueError(
            "the registry gives no descriptor of the Protobuf file: it does not know"
            " ?format=serialized"
        ) from None


def _add(pool: Any, file: Any, name: str, added: set[str]) -> None:
    """Add a file to a pool under a name, after its imports that everybody knows."""
    file.name = name
    for needed in file.dependency:
        if needed not in added:
            _add_known(pool, needed, added)
    try:
        pool.Add(file)
        pool.FindFileByName(name)
    except (TypeError, KeyError) as error:
        raise ValueError(f"{name}: {str(error).splitlines()[0]}") from error
    added.add(name)


def _add_known(pool: Any, name: str, added: set[str]) -> None:
    short = name.removeprefix(_WELL_KNOWN).removesuffix(".proto")
    if name in _WITHOUT_VALUES:
        _add(pool, descriptor_pb2.FileDescriptorProto(), name, added)
    elif name.startswith(_WELL_KNOWN) and short in _KNOWN:
        known = import_module(f"google.protobuf.{short}_pb2").DESCRIPTOR
        _add(pool, _copy(known), name, added)
    else:
        raise ValueError(f"the registry does not name the import {name}")


def _copy(known: Any) -> Any:
    file = descriptor_pb2.FileDescriptorProto()
    known.CopyToProto(file)
    return file


def _full_name(file: Any, indexes: tuple[int, ...]) -> str:
    names, level = [file.package] if file.package else [], file.message_type
    for index in indexes:
        if not 0 <= index < len(level):
            raise ValueError(f"the schema has no message type {'.'.join(map(str, indexes))}")
        names.append(level[index].name)
        level = level[index].nested_type
    return ".".join(names)
