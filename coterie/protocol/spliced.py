"""Large responses: they are encoded in slices, and arrays of them in parts.

A `stepping_framer` encodes any response in short steps.

`elements_encoder` encodes some elements of an array; the bytes of all of them make an
`EncodedArray`, which takes the place of the list in the message. A `splicing_encoder`,
`splicing_framer` or `stepping_framer` then encodes the message around it. The bytes are those of
the ordinary encoder.
"""

from collections.abc import Callable, Generator
from struct import Struct
from typing import Any

from coterie.protocol import compile as compiler
from coterie.protocol.compile_encode import EncodeEmitter
from coterie.protocol.fields import Declaration, MessageDeclaration
from coterie.protocol.schema import fields_of

# How many bytes are copied in a step: a fifth of a millisecond, more where memory is new.
_COPIED_BYTES = 1 << 20

_pack_prefix = Struct(">ii").pack
_join = b"".join


class EncodedArray(list[Any]):
    """An encoded array. It is a list without items, since messages declare their arrays as lists.

    Attributes:
        pieces: the bytes of the elements.
    """

    __slots__ = ("_count", "pieces")

    def __init__(self) -> None:
        """Start as an empty array."""
        super().__init__()
        self._count = 0
        self.pieces: list[bytes] = []

    def __len__(self) -> int:
        return self._count

    def add(self, piece: bytes, count: int = 1) -> None:
        """Append `count` elements that are encoded in one piece."""
        self._count += count
        self.pieces.append(piece)


def elements_encoder(
    message: type[MessageDeclaration], version: int, cls: type[Declaration], array: str
) -> Callable[[list[Any]], bytes]:
    """Return a function that encodes elements of an array, without their count.

    Args:
        message: the message that contains the array.
        version: its version.
        cls: the structure that declares the array; perhaps the message itself.
        array: the field.
    """
    (field,) = [each for each in fields_of(cls) if each.name == array]
    emitter = EncodeEmitter(cls, version, flexible=message.is_flexible(version))
    encode: Callable[[list[Any]], bytes]
    encode = _compiled(
        message, emitter, f"{array} elements", lambda: emitter.elements_source(field)
    )
    return encode


def splicing_encoder(
    message: type[MessageDeclaration], version: int, cls: type[Declaration], array: str
) -> Callable[[Any], bytes]:
    """Return the encoder of a structure whose array is an `EncodedArray`; see above."""
    emitter = EncodeEmitter(cls, version, flexible=message.is_flexible(version), spliced=array)
    encode: Callable[[Any], bytes]
    encode = _compiled(message, emitter, f"spliced {array}", emitter.source)
    return encode


def splicing_framer(
    message: type[MessageDeclaration], version: int, array: str
) -> Callable[[Any, int], bytes]:
    """Return `frame(response, correlation_id)` of a response whose array is an `EncodedArray`."""
    emitter = EncodeEmitter(
        message, version, flexible=message.is_flexible(version), framed=True, spliced=array
    )
    frame: Callable[[Any, int], bytes]
    frame = _compiled(message, emitter, f"spliced {array} frame", emitter.source)
    return frame


def stepping_framer(
    message: type[MessageDeclaration], version: int, array: str = ""
) -> Callable[[Any, int], Generator[None, None, bytearray]]:
    """Return `frame(response, correlation_id)`, which encodes a response in steps and returns it.

    Args:
        message: the class of the response.
        version: its version.
        array: the array that is an `EncodedArray` in it, if one is.
    """

    def frame(response: Any, correlation_id: int) -> Generator[None, None, bytearray]:
        emitter = EncodeEmitter(
            message, version, flexible=message.is_flexible(version), spliced=array
        )
        kind = f"spliced {array} pieces" if array else "pieces"
        pieces_of = _compiled(message, emitter, kind, emitter.pieces_source, "pieces")
        tags = b"\0" if message.has_flexible_header(version) else b""
        parts: list[bytes] = []
        for pieces in pieces_of(response):
            if sum(map(len, pieces)) > _COPIED_BYTES:
                parts += pieces
            else:
                parts.append(_join(pieces))
            yield
        size = 4 + len(tags) + sum(map(len, parts))
        whole = bytearray(4 + size)
        position = 8 + len(tags)
        whole[:position] = _pack_prefix(size, correlation_id) + tags
        copied = 0
        for part in parts:
            for first in range(0, len(part), _COPIED_BYTES):
                some = part[first : first + _COPIED_BYTES]
                whole[position : position + len(some)] = some
                position += len(some)
                copied += len(some)
                if copied >= _COPIED_BYTES:
                    copied = 0
                    yield
        return whole

    return frame


def _compiled(
    message: type[MessageDeclaration],
    emitter: EncodeEmitter,
    kind: str,
    source: Callable[[], str],
    name: str = "",
) -> Any:
    """Return a function, compiled at its first use and kept with its message."""
    label = f"{emitter.cls.__name__} v{emitter.version} {kind}"
    key = label, emitter.version
    if key not in message.functions_:
        name = name or ("frame" if emitter.framed else "encode")
        message.functions_[key] = compiler.execute(
            f"<coterie {label}>", source(), emitter.names, name
        )
    return message.functions_[key]
