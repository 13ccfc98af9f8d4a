"""The request and the response class of each API.

The module of an API is imported at the first call, so that a server, or a test that uses three
APIs, starts without importing all of them.
"""

from importlib import import_module

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.wire import Message


def request_class(api: ApiKey) -> type[Message]:
    """Return the declared request of an API."""
    return _declared(api, "Request")


def response_class(api: ApiKey) -> type[Message]:
    """Return the declared response of an API."""
    return _declared(api, "Response")


def _declared(api: ApiKey, suffix: str) -> type[Message]:
    module = import_module(f"coterie.protocol.messages.{api.name.lower()}")
    cls: type[Message] = getattr(module, api.kafka_name + suffix)
    return cls
