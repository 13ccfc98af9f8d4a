"""How requests of one API and version are served."""

from collections.abc import Callable, Generator
from typing import Any

from coterie.protocol.api_keys import ApiKey

# `handle(broker, request, connection)`, with the `Services` of the broker and the `Exchange` of
# the connection.
Handler = Callable[[Any, Any, Any], Any]
# `in_steps(response, correlation_id)` returns the frame after its last step.
StepFramer = Callable[[Any, int], Generator[None, None, bytearray]]


class Route:
    """How requests of one API and version are served."""

    __slots__ = ("api", "decoder", "flexible", "framer", "handle", "in_steps", "version")

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
        """
        self.api = api
        self.version = version
        self.handle = handle
        self.decoder = decoder
        self.framer = framer
        self.flexible = flexible
        self.in_steps = in_steps

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
        )
