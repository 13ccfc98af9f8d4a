"""From API key and version to the code that serves a request.

A handler is a function `handle(broker, request, connection)`, with the `Services` of the
broker and the `Exchange` of the connection; a route joins it with the compiled
decoder and framer of one version. The handlers that only forward to the group coordinator are in
handlers/group_requests.py, and some families of APIs share a module; every other API has a module
handlers/<api>.py.

Codecs are compiled at the first request of their API and version: a test that uses three APIs needs
few of them. What requests import is imported before the server listens, by `import_handlers`: an
import opens files, which fails while file handles are short. In the compiled form it opens none, so
each API is imported with its first request. Exceptions are cramjam, with the first compressed batch
that is opened, xxhash, with the first consumer group, and RE2, with a client's first regular
expression: each is at most three modules, 3 ms and one handle at a time. If such an import fails,
the connection of the request is closed, and the next request tries again.
"""

import sys
from collections.abc import Callable, Generator, Iterator, Mapping
from functools import partial
from importlib import import_module
from typing import Any

from coterie.protocol.api_keys import SERVED_VERSIONS, ApiKey
from coterie.protocol.apis import request_class, response_class
from coterie.protocol.errors import MalformedFrame
from coterie.protocol.spliced import splicing_framer, stepping_framer
from coterie.protocol.wire import Message
from coterie.server.handlers.group_requests import GROUP_HANDLERS, tells_nothing
from coterie.server.network.repeated_requests import remembering
from coterie.server.network.route import Handler, Route

# Makes a handler of another one, which it may call.
Wrapper = Callable[[Handler], Handler]
# Makes a route of another one.
Remake = Callable[[Route], Route]

_PACKAGE = "coterie.server.handlers"

# What the first group id needs: Python imports it then.
_ENCODING = "encodings.utf_16_be"

# A module of the compiled form, which has the code of all others in memory.
_IS_IN_MEMORY = "coterie.native_modules"

# Old versions that are served by other modules than the newer ones: the first version that is not,
# and the module.
_OLD_HANDLERS: dict[ApiKey, tuple[int, str]] = {
    ApiKey.FETCH: (4, "fetch_message_sets"),
    ApiKey.LIST_OFFSETS: (1, "list_segment_offsets"),
}

# APIs whose handlers are in one module, in its table HANDLERS.
_FAMILIES: dict[ApiKey, str] = {
    ApiKey.SASL_HANDSHAKE: "security",
    ApiKey.SASL_AUTHENTICATE: "security",
    ApiKey.DESCRIBE_ACLS: "acls",
    ApiKey.CREATE_ACLS: "acls",
    ApiKey.DELETE_ACLS: "acls",
    ApiKey.CREATE_DELEGATION_TOKEN: "delegation_tokens",
    ApiKey.RENEW_DELEGATION_TOKEN: "delegation_tokens",
    ApiKey.EXPIRE_DELEGATION_TOKEN: "delegation_tokens",
    ApiKey.DESCRIBE_DELEGATION_TOKEN: "delegation_tokens",
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: "scram_credentials",
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: "scram_credentials",
    ApiKey.DESCRIBE_CLIENT_QUOTAS: "client_quotas",
    ApiKey.ALTER_CLIENT_QUOTAS: "client_quotas",
    ApiKey.UNREGISTER_BROKER: "cluster_members",
    ApiKey.ADD_RAFT_VOTER: "cluster_members",
    ApiKey.REMOVE_RAFT_VOTER: "cluster_members",
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: "telemetry",
    ApiKey.PUSH_TELEMETRY: "telemetry",
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: "share_state",
    ApiKey.READ_SHARE_GROUP_STATE: "share_state",
    ApiKey.WRITE_SHARE_GROUP_STATE: "share_state",
    ApiKey.DELETE_SHARE_GROUP_STATE: "share_state",
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: "share_state",
    ApiKey.SHARE_GROUP_HEARTBEAT: "share_groups",
    ApiKey.SHARE_GROUP_DESCRIBE: "share_groups",
    ApiKey.STREAMS_GROUP_HEARTBEAT: "streams_groups",
    ApiKey.STREAMS_GROUP_DESCRIBE: "streams_groups",
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: "share_offsets",
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: "share_offsets",
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: "share_offsets",
}


def _tells_no_topics(request: Any) -> bool:
    # Of a share group, whose handler is imported with its first request.
    return request.member_epoch > 0 and request.subscribed_topic_names is None


def _tells_no_tasks(request: Any) -> bool:
    # Of a streams group, likewise.
    lists = request.active_tasks, request.topology, request.client_tags
    return request.member_epoch > 0 and lists == (None, None, None)


# Requests that are decoded once for all that have the same bytes.
_REPEATED: dict[ApiKey, Callable[[Any], bool]] = {
    ApiKey.CONSUMER_GROUP_HEARTBEAT: tells_nothing,
    ApiKey.SHARE_GROUP_HEARTBEAT: _tells_no_topics,
    ApiKey.STREAMS_GROUP_HEARTBEAT: _tells_no_tasks,
}

# Responses whose largest array the handler encodes, in slices.
_SPLICED = {ApiKey.METADATA: "topics", ApiKey.LIST_GROUPS: "groups"}


class Routes(dict[int, Route]):
    """The loaded routes of a table, by `api_key << 16 | version`.

    Each connection has a table, and may get another one: before a login it may ask for a few APIs
    only [security/login-states].
    """

    def __init__(self, versions: Mapping[ApiKey, tuple[int, int]] = SERVED_VERSIONS) -> None:
        """Serve some APIs, from a first to a last version; routes are loaded at their first use."""
        super().__init__()
        self._versions = versions
        self._remakes: tuple[Remake, ...] = ()

    def load(self, route_key: int) -> Route:
        """Load the route of an API and version that no request used before.

        Raises:
            MalformedFrame: this table does not serve the API or version. As in Kafka the connection
                is closed then [framing/served-versions].
        """
        api_key, version = route_key >> 16, route_key & 0xFFFF
        try:
            api = ApiKey(api_key)
        except ValueError:
            raise MalformedFrame(f"api key {api_key} is not served") from None
        served = self._versions.get(api)
        if served is None:
            raise MalformedFrame(f"{api.kafka_name} is not served on this connection")
        first, last = served
        if first <= version <= last:
            route = _load(api, version)
            for remake in self._remakes:
                route = remake(route)
            self[route_key] = route
            return route
        if api is ApiKey.API_VERSIONS:
            return _unsupported_api_versions()
        raise MalformedFrame(
            f"{api.kafka_name} version {version} is not served, only {first} to {last}"
        )

    def over(self, routes: "Routes") -> "Routes":
        """Return the table of a connection that has this one when the broker's is replaced."""
        return routes

    @property
    def remakes(self) -> tuple[Remake, ...]:
        """The functions that make each route anew, one after another; none for plain routes."""
        return self._remakes

    def remake(self, remakes: tuple[Remake, ...]) -> None:
        """Make every route of this table anew with other functions."""
        self._remakes = remakes
        self.clear()


class Overlay(Routes):
    """A table over another one, in which the handlers of some APIs are replaced.

    All other routes are those of the table below, so requests cost the same with an overlay.
    """

    def __init__(self, below: Routes, wrappers: Mapping[ApiKey, Wrapper]) -> None:
        """Lay over a table.

        Args:
            below: the table below.
            wrappers: for each of some APIs, what makes the new handler of the one below.
        """
        super().__init__()
        self._below = below
        self._wrappers = wrappers

    def load(self, route_key: int) -> Route:
        """Take a route from the table below, and replace its handler if that is wanted."""
        below = self._below.get(route_key)
        found = self._below.load(route_key) if below is None else below
        wrap = self._wrappers.get(found.api)
        route = found if wrap is None else found.with_handler(wrap(found.handle))
        if route_key in self._below:
            self[route_key] = route
        return route

    @property
    def remakes(self) -> tuple[Remake, ...]:
        """The functions that make the routes of the table below anew."""
        return self._below.remakes

    def remake(self, remakes: tuple[Remake, ...]) -> None:
        """Make the routes of the table below anew, and then those of this one."""
        self._below.remake(remakes)
        self.clear()


def import_handlers() -> Iterator[None]:
    """Import what requests need and has to be read from files, one API at each step.

    What is there already, as with the second broker of a process, takes no step.
    """
    for api in () if _IS_IN_MEMORY in sys.modules else SERVED_VERSIONS:
        before = len(sys.modules)
        request_class(api)
        _handler(api)
        if len(sys.modules) != before:
            yield
    if _ENCODING not in sys.modules:
        import_module(_ENCODING)
        yield


def _handler(api: ApiKey) -> Handler:
    family = _FAMILIES.get(api)
    if family is not None:
        handlers: dict[ApiKey, Handler] = import_module(f"{_PACKAGE}.{family}").HANDLERS
        return handlers[api]
    return GROUP_HANDLERS.get(api) or _handler_in(api.name.lower())


def _handler_in(module: str) -> Handler:
    handle: Handler = import_module(f"{_PACKAGE}.{module}").handle
    return handle


def _load(api: ApiKey, version: int) -> Route:
    request, response = request_class(api), response_class(api)
    array = _SPLICED.get(api)
    decoder, is_repeated = request.decoder(version), _REPEATED.get(api)
    if is_repeated is not None:
        decoder = remembering(decoder, is_repeated)
    newer, module = _OLD_HANDLERS.get(api, (0, ""))
    return Route(
        api,
        version,
        _handler_in(module) if version < newer else _handler(api),
        decoder,
        splicing_framer(response, version, array) if array else response.framer(version),
        flexible=request.has_flexible_header(version),
        in_steps=stepping_framer(response, version, array or ""),
        # Native decoders are so fast that the largest request takes some milliseconds.
        decode_in_steps=None if request.is_native else partial(_decode_in_steps, request, version),
    )


def _decode_in_steps(
    request: type[Message], version: int, data: bytes, start: int, end: int
) -> Generator[None, None, Any]:
    # Compiled at the first large request.
    return request.decoder_in_steps(version)(data, start, end)


def _unsupported_api_versions() -> Route:
    """Return the route of an ApiVersions request that is newer than this broker (KIP-511).

    Its body cannot be decoded; the response has version 0, which every client understands.
    """
    from coterie.protocol.messages.api_versions import ApiVersionsResponse
    from coterie.server.handlers.api_versions import handle_unsupported

    framer = ApiVersionsResponse.framer(0)
    return Route(ApiKey.API_VERSIONS, 0, handle_unsupported, _skip_body, framer, flexible=False)


def _skip_body(_buffer: bytes, _start: int, _end: int) -> str:
    # Not None: a decoded request is never None.
    return "the body of a request of an unknown version"
