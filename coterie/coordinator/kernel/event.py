"""Events: what has happened to a group, and why."""

from typing import Any

from coterie.protocol.messages.journal_records import FACT_NAMES, Fact


class Event:
    """Something that happened to a group, and why. Logs, metrics and the journal consist of these.

    Attributes:
        group_id: "" for an event of a whole partition.
        fact: the event as the journal stores it.
        name: the kind of the fact, such as `member_joined`.
    """

    __slots__ = ("fact", "group_id", "name")

    def __init__(self, group_id: str, fact: Fact) -> None:
        self.group_id = group_id
        self.fact = fact
        self.name = FACT_NAMES[type(fact)]

    def __repr__(self) -> str:
        return f"Event({self.group_id!r}, {self.fact!r})"

    @property
    def at_ms(self) -> int:
        """When it happened."""
        return self.fact.at_ms

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of the fact as a new dictionary."""
        fact = self.fact
        return {name: getattr(fact, name) for name in fact.fields_}
