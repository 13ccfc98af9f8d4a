"""Requests that clients repeat byte for byte, such as heartbeats of a member at rest.

Decoding one takes as long as handling it, so the latest ones are kept by their bytes. Equal bytes
of one version are equal requests, and the handlers of these do not change them.
"""

from collections.abc import Callable
from typing import Any

# How many requests of one version are kept: about half a kilobyte each. When there are more, all
# are forgotten, which costs a member that comes again a tenth of its heartbeat.
_KEPT = 2_048
# The longest one that is kept: ids of members and groups are shorter, and tagged fields that nobody
# knows may be of any length.
_LONGEST_BYTES = 512

_Decoder = Callable[[bytes, int, int], Any]


def remembering(decode: _Decoder, is_repeated: Callable[[Any], bool]) -> _Decoder:
    """Return a decoder that decodes the same bytes once.

    Args:
        decode: the decoder of one version.
        is_repeated: returns whether a request may come again, and has nothing that can be changed.
    """
    known: dict[bytes, Any] = {}

    def decoder(data: bytes, start: int, end: int) -> Any:
        if end - start > _LONGEST_BYTES:
            return decode(data, start, end)
        body = data[start:end]
        request = known.get(body)
        if request is None:
            request = decode(data, start, end)
            if is_repeated(request):
                if len(known) >= _KEPT:
                    known.clear()
                known[body] = request
        return request

    return decoder
