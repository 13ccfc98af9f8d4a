"""Several brokers for tests in a process of their own, with the methods of those in a thread."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self, overload

from coterie.address import Address
from coterie.control.cluster_control import ClusterState
from coterie.control.cluster_operations import CLUSTER
from coterie.control.in_process import InProcess
from coterie.control.link import over_link
from coterie.server.brokers import Cluster as Brokers
from coterie.testing.cluster import Cluster
from coterie.testing.errors import WrongUse
from coterie.testing.waiting import Waiting


@over_link("Cluster", CLUSTER)
class ProcessCluster(InProcess, Cluster):
    """A cluster in a process of its own; see `Cluster`.

    All brokers are in one process: `kill` ends one of them, and the others go on. Data are in a
    directory that is removed at the end, unless `data_dir` is given.
    """

    table = CLUSTER
    in_thread = "cluster()"

    @overload
    def start(self) -> Self: ...

    @overload
    def start(self, node_id: int) -> Waiting[None]: ...

    def start(self, node_id: int | None = None) -> Self | Waiting[None]:
        """Start the process, or one broker that was killed or stopped; see `Cluster.start`.

        Raises:
            BrokerNotStarted: a port, the directory or a setting cannot be used.
            WrongUse: the broker runs, or there is no such broker.
        """
        if node_id is None:
            return super().start()
        return self._wait_for("Control.start", node_id=node_id)

    def restart(self, node_id: int | None = None) -> Waiting[None]:
        """Stop one broker in order and start it again, or all; see `Cluster.restart`.

        Raises:
            WrongUse: the broker does not run.
        """
        if node_id is None:
            return self._wait_for("Control.restart")
        return self._wait_for("Cluster.restart", node_id=node_id)

    def _wait_for(self, operation_id: str, **arguments: int) -> Waiting[None]:
        link = self.link_

        async def work() -> None:
            link.call(operation_id, arguments)

        return Waiting(link, work())

    def _begin_first(self) -> None:
        place = "--host", self._listener.address.host, "--port", "0"
        options = self._options(place, self._features)
        child = self._start_process(["--brokers", str(self._count), *options])
        found = map(Address.parse, child.bootstrap_servers.split(","))
        self._addresses = dict(enumerate(found, 1))

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all brokers, as host:port,host:port."""
        return self._started().bootstrap_servers

    def address(self, node_id: int) -> str:
        """Return the address of a broker, as host:port."""
        _ = self._started()
        if node_id not in self._addresses:
            raise WrongUse(f"there is no broker {node_id}")
        return str(self._addresses[node_id])

    def state(self) -> ClusterState:
        """Return which brokers run, and what each leads and coordinates."""
        state: ClusterState = self.link_.call("Control.state", {})
        return state

    @property
    def brokers(self) -> list[int]:
        """The ids of the brokers that run."""
        return [each.node_id for each in self.state().brokers if each.is_running]

    @property
    def paused_brokers(self) -> list[int]:
        """The ids of the brokers that run and are paused."""
        return [each.node_id for each in self.state().brokers if each.is_paused]

    @contextmanager
    def paused(self, node_id: int | None, detect_ms: int | None = None) -> Iterator[None]:
        """Pause a broker during a block, as SIGSTOP does; see `Cluster.paused`.

        Raises:
            WrongUse: it does not run.
        """
        self.pause(node_id, detect_ms)
        try:
            yield
        finally:
            # It may have been killed meanwhile.
            if node_id in self.paused_brokers:
                self.resume(node_id)

    @property
    def server_cluster(self) -> Brokers:
        """Raise `WrongUse`."""
        raise WrongUse(f"the brokers have a process of their own: {self!r}")
