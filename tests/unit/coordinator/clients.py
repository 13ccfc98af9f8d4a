"""Clients of a harness that are the same object for each request, as those of a connection are.

The short ways of heartbeats are for these. A client that is equal but another object each time
takes the long way, so a test can compare the two.
"""

from coterie.coordinator.kernel.request import ClientContext


class Clients(dict[str, ClientContext]):
    """The clients of a harness by id, in the place of its `client`."""

    def __init__(self, *, kept: bool) -> None:
        """Begin without clients.

        Args:
            kept: whether a client is the same object each time.
        """
        super().__init__()
        self._kept = kept

    def _replace(self, *, client_id: str) -> ClientContext:
        """Return the client with an id, as `UnitHarness.send` asks for it."""
        client = self.get(client_id)
        if client is None or not self._kept:
            client = self[client_id] = ClientContext(client_id=client_id, client_host="/127.0.0.1")
        return client
