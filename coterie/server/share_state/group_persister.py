"""What share groups ask of share coordinators [share-groups/initialization]."""

from asyncio import AbstractEventLoop
from typing import Any

from coterie.protocol.api_keys import ApiKey
from coterie.server.groups.persister import Answered
from coterie.server.share_state.persister import Persister


class GroupPersister:
    """Asks the share coordinator of each partition for the group coordinator."""

    def __init__(self, loop: AbstractEventLoop, persister: Persister) -> None:
        """Ask nothing yet; answers come in turns of a loop."""
        self._loop = loop
        self._persister = persister

    def ask(self, message: Any, answered: Answered) -> None:
        """See `coterie.server.groups.persister.Persister`."""
        # Not at the start: it brings ten messages, which are imported after the first answer.
        from coterie.server.share_state.asking import ask_all

        def done(response: Any) -> None:
            self._loop.call_soon(answered, response)

        ask_all(ApiKey(message.api_key), message, self._persister.ask, done, self._loop.call_soon)
