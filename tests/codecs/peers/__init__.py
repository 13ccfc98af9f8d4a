"""Codecs other people wrote, behind one face: our message in, their bytes out, and back.

A peer is told values by our declaration's types, but finds field names, order, versions and
defaults in its own schemas. So a mistake in a declaration of ours makes bytes differ.
"""

from typing import Protocol, TypeVar

from coterie.protocol.wire import Message

M = TypeVar("M", bound=Message)


class Peer(Protocol):
    """One codec. The message handed in is first made one that the peer can express (`adapt`)."""

    name: str

    def knows(self, cls: type[Message], version: int) -> bool:
        """Whether the peer has this message and version."""
        ...

    def adapt(self, message: M, version: int) -> M:
        """The message with values the peer has no room for replaced (e.g. unknown error codes)."""
        ...

    def encode(self, message: Message, version: int) -> bytes:
        """The peer's bytes of our message."""
        ...

    def decode(self, cls: type[M], data: bytes, version: int) -> M:
        """What the peer reads in bytes, as our message."""
        ...
