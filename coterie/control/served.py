"""The broker of `coterie serve --control`: that of a test, with the options of the command.

Several brokers are in `served_cluster`.
"""

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from coterie.control.serving import Served, Serving
from coterie.security.mechanisms import Mechanism
from coterie.server.broker import Broker as Server
from coterie.server.environment import Environment
from coterie.server.run import open_broker, print_ready
from coterie.server.security.user_changes import add_user, revoke_user
from coterie.testing.broker import Broker
from coterie.testing.users import Users

if TYPE_CHECKING:
    from coterie.server.logging import Logger


class ServedBroker(Served, Broker):
    """A broker with the settings and the place of `coterie serve`."""

    def __init__(self, serving: Serving) -> None:
        """Describe it."""
        options, place = serving.options, serving.options.place
        super().__init__(
            data_dir=serving.data_dir, host=place.host, port=place.port, flush=str(options.flush)
        )
        self._serving = serving
        self._listeners = place.listeners
        # Those that are added and revoked; the others are settings or in the data directory.
        changed = self._users = Users((), Mechanism.SCRAM_SHA_512)
        self._changed = changed

    @property
    def has_certificates(self) -> bool:
        """Whether a listener has TLS."""
        return bool(self.server.tls_listeners)

    def _print_listening(self) -> None:
        print_ready(self._serving.options, [each.address for each in self._listeners])

    async def _begin_in_thread(self) -> None:
        await super()._begin_in_thread()
        options = self._serving.options
        if options.metrics_port is not None:
            # Imported here, because most brokers serve no metrics.
            from coterie.server.metrics.serving import serve_metrics

            self._metrics = await serve_metrics(
                lambda: self.server, options.metrics_address, options.http
            )

    async def _again(
        self, end: Coroutine[Any, Any, None], between: Callable[[], None] = lambda: None
    ) -> None:
        await super()._again(end, between)
        # The settings, which have the users of PLAIN, are those of the first start.
        for user, password in self._changed.passwords.items():
            add_user(self.server, user, password)
        for user in self._changed.revoked:
            revoke_user(self.server, user)

    def _log(self) -> "Logger":
        return self._serving.log

    def _make(self, environment: Environment) -> Server:
        serving = self._serving
        server = open_broker(serving.options, environment, serving.handles, self.disk)
        server.fatal.add_done_callback(self._failed)
        return server
