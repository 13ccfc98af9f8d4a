"""What a verb was answered: how many elements of its answers have which error code."""

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from coterie.client.errors import error_name
from coterie.protocol.api_keys import ApiKey
from coterie.protocol.apis import response_class
from coterie.protocol.errors import ErrorCode
from coterie.protocol.frames import decode_response_header
from coterie.protocol.wire import Struct

NONE = ErrorCode.NONE.name
# So many different codes are told.
_MOST_CODES = 3


class Answers(NamedTuple):
    """The answers to the requests of one verb.

    Attributes:
        api: the API of the requests, and `version` their version.
        frames: how often each answer came, without its length, in the order in which they came.
    """

    api: ApiKey
    version: int
    frames: Counter[bytes]

    def decoded(self) -> Iterator[tuple[Any, int]]:
        """Yield each different answer, and how often it came."""
        for data, count in self.frames.items():
            yield decoded(self.api, self.version, data), count

    def codes(self) -> Counter[str]:
        """Return how often each error code is in the answers."""
        codes: Counter[str] = Counter()
        for answer, count in self.decoded():
            for code, times in _codes(answer).items():
                codes[error_name(code)] += times * count
        return codes


def decoded(api: ApiKey, version: int, answer: bytes) -> Any:
    """Decode an answer."""
    cls = response_class(api)
    flexible = cls.has_flexible_header(version)
    _, body = decode_response_header(answer, 0, len(answer), flexible=flexible)
    return cls.decoder(version)(answer, body, len(answer))


def most(codes: Counter[str]) -> str:
    """Return the code of most elements; an answer without any code has no error."""
    return codes.most_common(1)[0][0] if codes else NONE


def description(codes: Counter[str]) -> str:
    """Return the codes and their numbers, for a table."""
    told = [f"{count:,} {name}" for name, count in codes.most_common(_MOST_CODES)]
    return ", ".join(told) or "no code"


def _codes(message: Struct) -> Counter[int]:
    """Count the codes of the innermost elements that have one, and errors around them."""
    within: Counter[int] = Counter()
    own: int | None = None
    for name in message.fields_:
        value = getattr(message, name)
        if name.endswith("error_code"):
            own = int(value)
        elif isinstance(value, list):
            for element in value:
                if isinstance(element, Struct):
                    within.update(_codes(element))
    if own is not None and (own or not within):
        within[own] += 1
    return within
