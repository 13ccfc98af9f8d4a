"""A stretch of a recording: by time, connection or group."""

from typing import Any, NamedTuple

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
        return self.groups is None or not self.groups.isdisjoint(groups_of(exchange))


def began(conversation: Conversation) -> int:
    """Return the time of the first entry of a recording, in epoch milliseconds."""
    return conversation.steps[0].at_ms if conversation.steps else 0


def groups_of(exchange: RecordedExchange) -> set[str]:
    """Return the groups that a request is about."""
    request: Any = exchange.request
    found = {getattr(request, "group_id", "")}
    for each in (*getattr(request, "groups", ()), *getattr(request, "groups_names", ())):
        found.add(each if isinstance(each, str) else each.group_id)
    if getattr(request, "key_type", 1) == 0:
        found |= {getattr(request, "key", ""), *getattr(request, "coordinator_keys", ())}
    return found - {""}
