"""Messages inside the opaque bytes of JoinGroup and SyncGroup.

Each begins with an int16 version. The rest is in the plain encoding of that version. Bytes of a
newer version are read as the newest known one, and bytes after the last known field are skipped
[consumer-protocol/protocol-type].
"""

from typing import TypeVar

from coterie.protocol.errors import MalformedFrame
from coterie.protocol.primitives import PREFIX_BYTES, read_prefix
from coterie.protocol.wire import Message

_M = TypeVar("_M", bound=Message)


def decode_embedded(cls: type[_M], data: bytes, version: int) -> _M:
    """Decode a message with its version before it.

    Args:
        cls: the class of the message.
        data: the version and the message.
        version: the version to read the bytes as, if theirs is not below it.

    Raises:
        MalformedFrame: the bytes are no such message.
    """
    return cls.decode(data, min(_version(cls, data), version), PREFIX_BYTES)


def encode_embedded(embedded: Message, version: int) -> bytes:
    """Encode a message with its version before it."""
    return version.to_bytes(PREFIX_BYTES, "big") + embedded.encode(version)


def _version(cls: type[Message], data: bytes) -> int:
    version = read_prefix(data, f"the version of a {cls.__name__}")
    if version < 0:
        raise MalformedFrame(f"{cls.__name__} has no version {version}")
    return version
