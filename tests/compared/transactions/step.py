"""What all steps of a conversation have in common."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from tests.compared.transactions.side import Side


@dataclass(frozen=True)
class Step(ABC):
    """A request in words.

    Attributes:
        version: its version.
    """

    version: int

    @abstractmethod
    def request(self, side: Side) -> Any:
        """Return the request, with the ids of a broker."""

    def learn(self, side: Side, answer: Any) -> None:  # noqa: B027 - most steps learn nothing
        """Keep what a broker has made up in its answer."""

    @property
    def ends(self) -> tuple[str, ...]:
        """The transactional ids whose transactions this step may end."""
        return ()


Partitions = tuple[tuple[str, int], ...]


def by_topic(partitions: Partitions) -> dict[str, list[int]]:
    """Return partitions by topic, in their order."""
    found: dict[str, list[int]] = {}
    for topic, partition in partitions:
        found.setdefault(topic, []).append(partition)
    return found
