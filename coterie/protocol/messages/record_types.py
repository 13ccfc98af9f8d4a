"""The records of an internal topic: which types there are, their keys, values and versions.

A coordinator keeps its state in records of a topic of its own. A key is an int16 record type and a
body, a value an int16 version and a body, and a null value is a tombstone [group-log/record-types].
Keys have one version. The classes of key and value say which versions are read, and how large a
value may be; a record type says which version is written.

The registry names classes and loads their module with the first record of the type: a log contains
records of few types, and a server starts before it reads any.
"""

import importlib
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from coterie.protocol.errors import MalformedFrame
from coterie.protocol.primitives import PREFIX_BYTES, read_prefix
from coterie.protocol.wire import Message

_Encode = Callable[[Any], bytes]
# The bytes before a key or value, and the function that encodes it.
_Encoder = tuple[bytes, _Encode]


class UnknownValueVersion(MalformedFrame):
    """A value is newer than this code; skipping it loses state [group-log/unknown-types]."""


class UnknownKey(NamedTuple):
    """A key of a type that is not declared; a load skips the record [group-log/unknown-types]."""

    record_type: int
    body: bytes


class RecordType:
    """The declaration of a record type.

    Attributes:
        number: the number in the key.
        name: the name of Kafka's schema.
        stem: the names of the classes of key and value, without `Key` and `Value`.
        read_as: the number of the type that replaced this one, if it is only read.
    """

    __slots__ = (
        "_encode_value",
        "_key",
        "_module",
        "_value",
        "_version",
        "name",
        "number",
        "read_as",
        "stem",
    )

    def __init__(
        self,
        number: int,
        module: str,
        stem: str,
        *,
        name: str = "",
        read_as: int | None = None,
        version: int = 0,
        encode_value: _Encode | None = None,
    ) -> None:
        """Declare a record type.

        Args:
            number: the number in the key.
            module: the module of `coterie.protocol.messages` that declares key and value.
            stem: the names of their classes without `Key` and `Value`.
            name: the name of Kafka's schema, if it is another one.
            read_as: the number of the type that replaced this one, with the same key and value.
            version: the version of the values that are written.
            encode_value: encodes a value, version included, if the version depends on the value.
        """
        self.number = number
        self.name = name or stem
        self.read_as = read_as
        self._module = module
        self.stem = stem
        self._version = version
        self._encode_value = encode_value
        self._key: type[Message] | None = None
        self._value: type[Message] | None = None

    def __repr__(self) -> str:
        return f"RecordType({self.number}, {self.name})"

    @property
    def key(self) -> type[Message]:
        """The class of the keys."""
        if self._key is None:
            self._key = self._of_module(self.stem + "Key")
        return self._key

    @property
    def value(self) -> type[Message]:
        """The class of the values."""
        if self._value is None:
            self._value = self._of_module(self.stem + "Value")
        return self._value

    def _of_module(self, name: str) -> Any:
        return getattr(importlib.import_module(f"coterie.protocol.messages.{self._module}"), name)

    def key_encoder(self) -> _Encoder:
        """Return the bytes before a key, and the function that encodes it."""
        return self.number.to_bytes(PREFIX_BYTES, "big"), self.key.encoder(0)

    def value_encoder(self) -> _Encoder:
        """Return the bytes before a value, and the function that encodes it."""
        if self._encode_value is not None:
            return b"", self._encode_value
        version = self._version
        return version.to_bytes(PREFIX_BYTES, "big"), self.value.encoder(version)

    def decode_value(self, value: bytes) -> Message:
        """Decode a value that is not a tombstone.

        Raises:
            UnknownValueVersion: a newer broker wrote the value.
            MalformedFrame: the bytes are not a value of their version.
        """
        cls = self.value
        version = read_prefix(value, "the version of a record value")
        first, last = cls.versions
        if not first <= version <= last:
            raise UnknownValueVersion(
                f"{cls.__name__} has versions {first} to {last}, not {version}"
            )
        return cls.decode(value, version, PREFIX_BYTES)


class RecordTypes:
    """The record types of one topic.

    Attributes:
        by_number: the declarations.
        stored_prefixes: the first bytes of every known key, and those under which a load stores the
            record, so that records of a replaced type and their successors have the same key.
    """

    def __init__(self, types: Iterable[RecordType]) -> None:
        """Declare the record types of a topic."""
        self.by_number = {each.number: each for each in types}
        self.stored_prefixes = {
            number.to_bytes(PREFIX_BYTES, "big"): (
                number if each.read_as is None else each.read_as
            ).to_bytes(PREFIX_BYTES, "big")
            for number, each in self.by_number.items()
        }
        self._written = {
            each.stem: each for each in self.by_number.values() if each.read_as is None
        }
        # By the class of a key or value; filled at its first use.
        self._encoders: dict[type[Message], _Encoder] = {}

    # -- encoding ----------------------------------------------------------------------------------

    def encode_key(self, key: Message) -> bytes:
        """Encode the key of a record: record type and body."""
        try:
            prefix, encode = self._encoders[type(key)]
        except KeyError:
            prefix, encode = self._encoders[type(key)] = self.type_of(key).key_encoder()
        return prefix + encode(key)

    def encode_value(self, value: Message) -> bytes:
        """Encode the value of a record, in the version that is written."""
        try:
            prefix, encode = self._encoders[type(value)]
        except KeyError:
            written = self._written[type(value).__name__.removesuffix("Value")]
            prefix, encode = self._encoders[type(value)] = written.value_encoder()
        return prefix + encode(value)

    def type_of(self, key: Message) -> RecordType:
        """Return the record type under which a key is written."""
        return self._written[type(key).__name__.removesuffix("Key")]

    # -- decoding ----------------------------------------------------------------------------------

    def decode_key(self, key: bytes) -> Message | UnknownKey:
        """Decode the key of a record.

        Raises:
            MalformedFrame: the bytes are too short, or are not a key of their record type.
        """
        number = read_prefix(key, "the type of a record key")
        record_type = self.by_number.get(number)
        if record_type is None:
            return UnknownKey(number, key[PREFIX_BYTES:])
        return record_type.key.decode(key, 0, PREFIX_BYTES)

    def decode_value(self, key: Message, value: bytes | None) -> Message | None:
        """Decode the value of a record; None for a tombstone.

        Raises:
            UnknownValueVersion: a newer broker wrote the value.
            MalformedFrame: the bytes are not a value of their version.
        """
        return None if value is None else self.type_of(key).decode_value(value)
