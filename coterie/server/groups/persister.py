"""Where share groups keep the delivery state of their partitions.

The group coordinator asks for state to be created and deleted. `Persister` is what it asks.
"""

from asyncio import AbstractEventLoop
from collections.abc import Callable
from typing import Any, Protocol

from coterie.coordinator.groups.share.state_request import same_answer

# Called with the response to a request, in a later turn of the event loop.
Answered = Callable[[Any], None]


class Persister(Protocol):
    """Asks the share coordinators of partitions."""

    def ask(self, message: Any, answered: Answered) -> None:
        """Send a request of a group to the share coordinators of its partitions.

        Args:
            message: an InitializeShareGroupState or a DeleteShareGroupState.
            answered: gets the response, with a result for each partition.
        """


class NoPersister:
    """Keeps nothing, and says that it was done (Kafka's NoOpStatePersister).

    Kafka has it if `group.share.persister.class.name` is empty.
    """

    def __init__(self, loop: AbstractEventLoop) -> None:
        """Answer in turns of a loop."""
        self._loop = loop

    def ask(self, message: Any, answered: Answered) -> None:
        """See `Persister`."""
        self._loop.call_soon(answered, same_answer(message))
