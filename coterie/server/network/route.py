"""How requests of one API and version are served."""

from collections.abc import Callable, Generator
from typing import Any

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.schema import array_names
from coterie.server.network import limits

# `handle(broker, request, connection)`, with the `Services` of the broker and the `Exchange` of
# the connection.
Handler = Callable[[Any, Any, Any], Any]
# `decode_in_steps(buffer, start, end)` returns the request after its last step.
StepDecoder = Callable[[bytes, int, int], Generator[None, None, Any]]
# `in_steps(response, correlation_id)` returns the frame after its last step.
StepFramer = Callable[[Any, int], Generator[None, None, bytearray]]

# Encoding so many elements takes one to three milliseconds; those of CreateTopics have the most
# fields.
_LARGE_ELEMENTS = 100


class Route:
    """How requests of one API and version are served."""

    __slots__ = (
        "_arrays",
        "api",
        "decode_in_steps",
        "decoder",
        "flexible",
        "framer",
        "handle",
        "in_steps",
        "large_bytes",
        "version",
    )

    def __init__(
        self,
        api: ApiKey,
        version: int,
        handle: Handler,
        decoder: Callable[[bytes, int, int], Any],
        framer: Callable[[Any, int], bytes],
        *,
        flexible: bool,
        in_steps: StepFramer | None = None,
        decode_in_steps: StepDecoder | None = None,
    ) -> None:
        """Join the parts.

        Args:
            api: the API.
            version: the version of the request and its response.
            handle: `handle(broker, request, connection)`; it returns the response, or None if the
                response is delayed or the request has none.
            decoder: `decoder(buffer, start, end)` returns the request.
            framer: `framer(response, correlation_id)` returns the whole frame.
            flexible: whether the request header ends with tagged fields (KIP-482).
            in_steps: encodes a large response as `framer` does, but in short steps; None if it
                cannot be done in steps.
            decode_in_steps: decodes a large request as `decoder` does, but in short steps; None if
                that cannot be done in steps.
        """
        self.api = api
        self.version = version
        self.handle = handle
        self.decoder = decoder
        self.framer = framer
        self.flexible = flexible
        self.in_steps = in_steps
        self.decode_in_steps = decode_in_steps
        # A request of more bytes is decoded in steps, and its response encoded so.
        is_produce = api is ApiKey.PRODUCE
        self.large_bytes = limits.LARGE_PRODUCE_BYTES if is_produce else limits.LARGE_REQUEST_BYTES
        # The arrays of the response, found when one is delayed for the first time.
        self._arrays: tuple[str, ...] | None = None

    def is_large(self, response: Any) -> bool:
        """Return whether a response has so many elements that it should be encoded in steps."""
        if self.in_steps is None:
            return False
        arrays = self._arrays
        if arrays is None:
            arrays = self._arrays = array_names(type(response))
        for name in arrays:
            array = getattr(response, name)
            if array is not None and len(array) > _LARGE_ELEMENTS:
                return True
        return False

    def with_handler(self, handle: Handler) -> "Route":
        """Return the same route with another handler."""
        return Route(
            self.api,
            self.version,
            handle,
            self.decoder,
            self.framer,
            flexible=self.flexible,
            in_steps=self.in_steps,
            decode_in_steps=self.decode_in_steps,
        )
