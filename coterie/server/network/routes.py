"""From api key and version to the code that serves it, loaded at the first request.

A handler module has one function `handle(broker, request, connection)`; a route joins it with the
compiled decoder and framer of one version. Nothing of an API is imported or compiled before
somebody asks for it: that keeps the start of the server, and of a test that uses three APIs, short.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from coterie.protocol.api_keys import SERVED_VERSIONS, ApiKey
from coterie.protocol.errors import MalformedFrame


class Route:
    """How requests of one API and version are served."""

    __slots__ = ("api", "decoder", "flexible", "framer", "handle", "version")

    def __init__(
        self,
        api: ApiKey,
        version: int,
        handle: Callable[[Any, Any, Any], Any],
        decoder: Callable[[bytes, int, int], Any],
        framer: Callable[[Any, int], bytes],
        *,
        flexible: bool,
    ) -> None:
        """Join the parts.

        Args:
            api: which API.
            version: of the request and its response.
            handle: `handle(broker, request, connection) -> response`, or None when it is answered
                later or never.
            decoder: `decoder(buffer, start, end) -> request`.
            framer: `framer(response, correlation_id) -> bytes`, the whole frame.
            flexible: whether the request header ends with tagged fields (KIP-482).
        """
        self.api = api
        self.version = version
        self.handle = handle
        self.decoder = decoder
        self.framer = framer
        self.flexible = flexible


def class_stem(api: ApiKey) -> str:
    """The name of an API as its message classes begin: JOIN_GROUP -> JoinGroup."""
    return "".join(word.capitalize() for word in api.name.split("_"))


class Routes(dict[int, Route]):
    """The loaded routes by `api_key << 16 | version`."""

    def load(self, route_key: int) -> Route:
        """Load the route of a request nobody sent before.

        Raises:
            MalformedFrame: no such API or version is served; Kafka closes the connection then too
                (spec section 1).
        """
        api_key, version = route_key >> 16, route_key & 0xFFFF
        try:
            api = ApiKey(api_key)
        except ValueError:
            raise MalformedFrame(f"api key {api_key} is not served") from None
        first, last = SERVED_VERSIONS[api]
        if first <= version <= last:
            route = self[route_key] = _load(api, version)
            return route
        if api is ApiKey.API_VERSIONS:
            return _unsupported_api_versions()
        raise MalformedFrame(
            f"{class_stem(api)} version {version} is not served, only {first} to {last}"
        )


def _load(api: ApiKey, version: int) -> Route:
    name, stem = api.name.lower(), class_stem(api)
    messages = import_module(f"coterie.protocol.messages.{name}")
    request, response = getattr(messages, f"{stem}Request"), getattr(messages, f"{stem}Response")
    handle = import_module(f"coterie.server.handlers.{name}").handle
    return Route(
        api,
        version,
        handle,
        request.decoder(version),
        response.framer(version),
        flexible=request.has_flexible_header(version),
    )


def _unsupported_api_versions() -> Route:
    """A client newer than us: its body can't be read, the answer is one every client understands
    (KIP-511).
    """
    from coterie.protocol.messages.api_versions import ApiVersionsResponse
    from coterie.server.handlers.api_versions import handle_unsupported

    framer = ApiVersionsResponse.framer(0)
    return Route(ApiKey.API_VERSIONS, 0, handle_unsupported, _unread, framer, flexible=False)


def _unread(_buffer: bytes, _start: int, _end: int) -> str:
    return "a request of a version that is not known here"
