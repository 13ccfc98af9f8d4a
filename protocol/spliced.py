"""Arrays that are encoded in parts, so that a large response is encoded in slices.

`elements_encoder` encodes some elements of an array; the bytes of all of them make an
`EncodedArray`, which takes the place of the list in the message. A `splicing_encoder` or
`splicing_framer` then encodes the message around it. The bytes are those of the ordinary encoder.
"""

from collections.abc import Callable
from typing import Any

from coterie.protocol import compile as compiler
from coterie.protocol.compile_encode import EncodeEmitter
from coterie.protocol.fields import Declaration, MessageDeclaration
from coterie.protocol.schema import fields_of


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


def _compiled(
    message: type[MessageDeclaration],
    emitter: EncodeEmitter,
    kind: str,
    source: Callable[[], str],
) -> Any:
    """Return a function, compiled at its first use and kept with its message."""
    label = f"{emitter.cls.__name__} v{emitter.version} {kind}"
    key = label, emitter.version
    if key not in message.functions_:
        name = "frame" if emitter.framed else "encode"
        message.functions_[key] = compiler.execute(
            f"<coterie {label}>", source(), emitter.names, name
        )
    return message.functions_[key]
