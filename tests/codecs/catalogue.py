"""All declared messages and their versions, found by importing protocol/messages."""

import importlib
import pkgutil

import coterie.protocol.messages
from coterie.protocol.wire import Message


def _find() -> list[type[Message]]:
    found = []
    for module_info in pkgutil.iter_modules(coterie.protocol.messages.__path__):
        module = importlib.import_module(f"coterie.protocol.messages.{module_info.name}")
        found += [
            value
            for value in vars(module).values()
            if isinstance(value, type)
            and issubclass(value, Message)
            and value.__module__ == module.__name__
        ]
    return sorted(found, key=lambda cls: cls.__name__)


MESSAGES = _find()
REQUESTS = [cls for cls in MESSAGES if cls.__name__.endswith("Request")]
RESPONSES = [cls for cls in MESSAGES if cls.__name__.endswith("Response")]


def versions_of(cls: type[Message]) -> range:
    """Return all versions of a message."""
    first, last = cls.versions
    return range(first, last + 1)


def pairs(messages: list[type[Message]]) -> list[tuple[type[Message], int]]:
    """Return (message, version) for each version of each message."""
    return [(cls, version) for cls in messages for version in versions_of(cls)]


def pair_id(value: object) -> str:
    """Return the text for a message or version in the name of a test."""
    return value.__name__ if isinstance(value, type) else f"v{value}"
