"""A stretch of a recording: by time, connection or group."""

from typing import NamedTuple

from coterie.recording.conversation import Conversation, RecordedExchange


class Selection(NamedTuple):
    """What is printed, compared and made a transcript of; None stands for everything.

    Attributes:
        from_ms, to_ms: the time since the first entry of the recording.
        connections: numbers of connections.
        groups: ids of groups.
    """

    from_ms: int | None = None
    to_ms: int | None = None
    connections: frozenset[int] | None = None
    groups: frozenset[str] | None = None

    def of(self, conversation: Conversation) -> list[RecordedExchange]:
        """Return the exchanges of the stretch, in order."""
        began_ms = began(conversation)
        return [each for each in conversation.exchanges if self._has(each, began_ms)]

    def _has(self, exchange: RecordedExchange, began_ms: int) -> bool:
        at_ms = exchange.at_ms - began_ms
        if self.from_ms is not None and at_ms < self.from_ms:
            return False
        if self.to_ms is not None and at_ms > self.to_ms:
            return False
        if self.connections is not None and exchange.connection not in self.connections:
            return False
        return self.groups is None or not self.groups.isdisjoint(exchange.groups)


def began(conversation: Conversation) -> int:
    """Return the time of the first entry of a recording, in epoch milliseconds."""
    return conversation.steps[0].at_ms if conversation.steps else 0
