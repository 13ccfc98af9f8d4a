"""Independent codecs behind one interface: our message to their bytes, and back.

A peer gets values by the types of our declarations, but takes field names, order, versions and
defaults from its own schemas. So a mistake in one of our declarations makes the bytes differ.
"""

from typing import Protocol, TypeVar

from coterie.protocol.wire import Message

M = TypeVar("M", bound=Message)

# Where our names leave out what the versions of a field say already.
SHORTER_NAMES = {
    "v3_and_below_transactional_id": "transactional_id",
    "v3_and_below_producer_id": "producer_id",
    "v3_and_below_producer_epoch": "producer_epoch",
    "v3_and_below_topics": "topics",
    "results_by_topic_v3_and_below": "results_by_topic",
}


class Peer(Protocol):
    """One codec; `adapt` first changes a message to one that the codec can express."""

    name: str

    def supports(self, cls: type[Message], version: int) -> bool:
        """Return whether the peer has this message and version."""
        ...

    def adapt(self, message: M, version: int) -> M:
        """Replace values that the peer cannot express, such as unknown error codes."""
        ...

    def encode(self, message: Message, version: int) -> bytes:
        """Return the peer's bytes of our message."""
        ...

    def decode(self, cls: type[M], data: bytes, version: int) -> M:
        """Return the peer's decoding of bytes as our message."""
        ...
