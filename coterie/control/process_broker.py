"""A broker for tests in a process of its own, with the methods of the one in a thread.

The process is `coterie serve --control`; methods become requests to its control port. So a test can
kill the broker as an operating system does, and the broker's work takes no time from the test's
interpreter. It takes some tenths of a second to start.
"""

from collections.abc import Mapping

from coterie.address import Address
from coterie.control.in_process import InProcess
from coterie.control.link import over_link
from coterie.server.broker import Broker as Server
from coterie.testing.broker import Broker
from coterie.testing.waiting import Waiting


@over_link("Broker")
class ProcessBroker(InProcess, Broker):
    """A broker in a process of its own; see `Broker`.

    Data are in a directory that is removed at the end, unless `data_dir` is given, because memory
    would not outlive `kill`. `virtual_time` cannot be used.
    """

    # --- its life ---------------------------------------------------------------------------------

    def kill(self) -> Waiting[None]:
        """Kill the process with SIGKILL and start another one, with its data and at its address.

        Faults end with the process, and its recorded requests are lost.
        """
        child, link = self._started(), self.link_

        async def again() -> None:
            self._end_faults()
            child.kill()
            self._begin({})

        return Waiting(link, again())

    def _begin_first(self) -> None:
        self._begin(self._features)

    def _begin(self, features: Mapping[str, int]) -> None:
        """Start a process; later ones keep the data and the address of the first."""
        place = "--host", self.host, "--port", str(self.port)
        child = self._start_process(self._options(place, features))
        self.host, self.port = Address.parse(child.bootstrap_servers)
        self._listener = self._listener._replace(address=self.address)

    @property
    def bootstrap_servers(self) -> str:
        """The address for clients, as host:port."""
        _ = self._started()
        return f"{self.host}:{self.port}"

    @property
    def server(self) -> Server:
        """Raise `WrongUse`."""
        return self.servers[0]
