"""Several brokers in one process, over one data directory: a cluster that tests can break.

Each broker has its own listeners, routes, coordinators and limits. They share the logs, so a broker
that takes a partition over has all its records at once. What a user does to a real cluster is done
here by a call: a broker is killed, stopped or started again, a leader or a coordinator is
moved.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence

from coterie.address import Address
from coterie.server.broker import Broker
from coterie.server.cluster.elections import (
    leader_moved,
    leaders_moved_away,
    led_uncleanly,
    node_joined,
    node_lost,
)
from coterie.server.cluster.image import NO_LEADER, CoordinatorType
from coterie.server.cluster.leadership import Leadership
from coterie.server.config.listeners import Listener
from coterie.server.logs.partition import OPEN, Partition
from coterie.server.shared_parts import SharedParts
from coterie.storage.cut_end import cut_end
from coterie.storage.errors import OffsetOutOfRange

# The most brokers of one process. Kafka's tests use three, and some five.
MOST_BROKERS = 9

# Lets a broker serve clients at its listeners; returns their addresses with real ports.
Serve = Callable[[Broker, Sequence[Listener]], Awaitable[Sequence[Address]]]


class UnknownNode(Exception):  # noqa: N818 - the caller has named what is not there
    """There is no such broker, or it is not in the state that the call needs."""


class CannotCut(Exception):  # noqa: N818 - the caller has asked for what cannot be
    """The end of a log cannot be cut off."""


class Cluster:
    """The brokers.

    Attributes:
        shared: what they share.
        leadership: who leads what.
        brokers: those that run, by their ids.
        started_ms: when the first of them began.
        listeners: where the clients of each broker connect, with real ports.
    """

    def __init__(
        self,
        shared: SharedParts,
        *,
        serve: Serve = Broker.start,
        prepare: Callable[[Broker], None] = lambda _: None,
    ) -> None:
        """Take the parts of at least two brokers, which `start` makes.

        Args:
            shared: the parts.
            serve: lets a broker serve its clients.
            prepare: called with each broker before it serves.
        """
        assert shared.leadership is not None, "a cluster has several brokers"
        self.shared = shared
        self.leadership: Leadership = shared.leadership
        self.brokers: dict[int, Broker] = {}
        self.started_ms = shared.environment.now_ms()
        self._log = shared.log
        self._serve = serve
        self._prepare = prepare
        self.listeners: dict[int, Sequence[Listener]] = {}
        # The broker that is down and of which the others do not know it.
        self._undetected: set[int] = set()

    # --- start and stop ---------------------------------------------------------------------------

    async def start(self, listeners: Mapping[int, Sequence[Listener]]) -> dict[int, list[Address]]:
        """Start all brokers.

        Args:
            listeners: where the clients of each connect, by node id.

        Returns:
            The addresses at which each listens.

        Raises:
            CannotListen: an address cannot be used. `stop` leaves nothing behind then.
            ConfigError: a listener cannot be served with its settings.
        """
        for node_id in listeners:
            broker = Broker(self.shared, node_id)
            self.brokers[node_id] = broker
            self._prepare(broker)
        self.shared.deletions.resume()
        return {node_id: await self._listen(node_id, each) for node_id, each in listeners.items()}

    async def _listen(self, node_id: int, listeners: Sequence[Listener]) -> list[Address]:
        addresses = list(await self._serve(self.brokers[node_id], listeners))
        # It comes back at the same ports.
        self.listeners[node_id] = [
            each._replace(address=address)
            for each, address in zip(listeners, addresses, strict=True)
        ]
        return addresses

    async def stop(self) -> None:
        """Stop all brokers in order, and close what they share."""
        stopping = self._take_all()
        for broker in stopping:
            broker.begin_leaving()
        await self.shared.drain(stopping)
        for broker in stopping:
            broker.give_up()
        for broker in stopping:
            await broker.end_connections()
        self.shared.close()
        self.shared.log.info("brokers stopped")

    async def abandon(self) -> None:
        """End all brokers as if the process was killed; see `Broker.abandon`."""
        await self.shared.finish_changes()
        ending = self._take_all()
        for broker in ending:
            broker.break_off()
        for broker in ending:
            await broker.end_connections()
        self.shared.abandon()

    def _take_all(self) -> list[Broker]:
        """Return all brokers, none of which runs any more for the others."""
        self.shared.maintenance.stop()
        taken, self.brokers = list(self.brokers.values()), {}
        self._undetected.clear()
        return taken

    # --- one broker -------------------------------------------------------------------------------

    def running(self, node_id: int) -> Broker:
        """Return a broker that runs.

        Raises:
            UnknownNode: it does not.
        """
        broker = self.brokers.get(node_id)
        if broker is None:
            raise UnknownNode(self._not_running(node_id))
        return broker

    @property
    def any_broker(self) -> Broker:
        """A broker that runs.

        Raises:
            UnknownNode: none does.
        """
        for broker in self.brokers.values():
            return broker
        raise UnknownNode("no broker runs")

    def _not_running(self, node_id: int) -> str:
        if node_id in self.shared.node_ids:
            return f"broker {node_id} does not run; those that do are {self._names(self.brokers)}"
        return f"there is no broker {node_id}; there are {self._names(self.shared.node_ids)}"

    @staticmethod
    def _names(node_ids: Sequence[int] | Mapping[int, Broker]) -> str:
        return ", ".join(map(str, node_ids)) or "none"

    def kill(self, node_id: int, detect_ms: int = 0) -> None:
        """End a broker as `kill -9` does: its connections are reset, and nothing is answered.

        [cluster/kill]

        Args:
            node_id: the broker.
            detect_ms: after which time the others learn of it; until then they name it as before.

        Raises:
            UnknownNode: it does not run.
        """
        self.running(node_id)
        self.brokers.pop(node_id).break_off()
        self._log.info("broker killed", broker=node_id)
        if detect_ms:
            self._undetected.add(node_id)
            self.shared.loop.call_later(detect_ms / 1000, self._detect, node_id)
        else:
            self._lost(node_id)

    def _detect(self, node_id: int) -> None:
        if node_id in self._undetected:
            self._undetected.discard(node_id)
            self._lost(node_id)

    def _lost(self, node_id: int) -> None:
        self.leadership.change(node_lost(self.leadership.image, node_id))

    async def stop_broker(self, node_id: int) -> None:
        """Stop a broker in order: others lead its partitions before it ends.

        Members whose requests wait for it get NOT_COORDINATOR.

        Raises:
            UnknownNode: it does not run.
        """
        broker = self.running(node_id)
        # What its members hold is released while it leads the partitions.
        broker.share.end()
        for each in self.brokers.values():
            each.share_state.write()
        self.leadership.change(leaders_moved_away(self.leadership.image, node_id))
        await broker.leave()
        if self.brokers.get(node_id) is not broker:
            # It was killed meanwhile, and has perhaps been started again.
            return
        del self.brokers[node_id]
        self._lost(node_id)
        self._log.info("broker stopped", broker=node_id)

    async def start_broker(self, node_id: int) -> None:
        """Start a broker again, at its address. It leads only what nothing else leads.

        Raises:
            UnknownNode: it runs, there is no such broker, or it is killed meanwhile.
            CannotListen: its address is in use by another program.
        """
        if node_id in self.brokers:
            raise UnknownNode(f"broker {node_id} runs already")
        if node_id not in self.listeners:
            raise UnknownNode(self._not_running(node_id))
        if node_id in self._undetected:
            # The others learn now that it was gone.
            self._detect(node_id)
        broker = Broker(self.shared, node_id)
        self.brokers[node_id] = broker
        self._prepare(broker)
        try:
            await self._listen(node_id, self.listeners[node_id])
        except BaseException:
            self.brokers.pop(node_id, broker).break_off()
            raise
        if self.brokers.get(node_id) is not broker:
            broker.break_off()
            raise UnknownNode(f"broker {node_id} was killed while it started")
        image = self.leadership.image
        self.leadership.change(node_joined(image, image.nodes[node_id]))
        self._log.info("broker started", broker=node_id)

    def detect(self, node_id: int) -> None:
        """Let the others take a broker for dead that runs, as they do when it was silent for long.

        It keeps its connections, and is no leader of anything any more.
        """
        self.running(node_id)
        self._lost(node_id)

    def rejoin(self, node_id: int) -> None:
        """Let a broker be in sync again that the others have taken for dead."""
        self.running(node_id)
        image = self.leadership.image
        node = image.nodes[node_id]
        if not node.is_live:
            self.leadership.change(node_joined(image, node))

    # --- partitions -------------------------------------------------------------------------------

    def move(self, topic: str, index: int, to: int) -> None:
        """Let a broker lead a partition; it gets the replica of the present leader if it has none.

        Raises:
            UnknownNode: the broker does not run, or the others take it for dead, or there is no
                such partition.
        """
        self.running(to)
        self._partition(topic, index)
        if not self.leadership.image.nodes[to].is_live:
            raise UnknownNode(f"broker {to} is paused, and the others take it for dead")
        self.leadership.change(leader_moved(self.leadership.image, topic, index, to))

    def move_coordinator(self, kind: CoordinatorType, key: str, to: int) -> None:
        """Let a broker coordinate a group or a transactional id, with all of its partition.

        Raises:
            UnknownNode: the broker does not run, or nothing coordinates transactions yet.
        """
        found = self.leadership.image.coordinator_partition(kind, key)
        if found is None:
            raise UnknownNode("no transaction has been coordinated yet: there is nothing to move")
        self.move(*found, to)

    async def cut(self, topic: str, index: int, to_offset: int) -> None:
        """Let an unclean election take the records from an offset on from a partition.

        Another replica leads in the next epoch, if there is one; all have the shorter log.

        Raises:
            UnknownNode: there is no such partition.
            CannotCut: it has no leader, only brokers write it, acknowledged records are in a
                write-ahead log, or the offset is not in the log.
        """
        partition = self._partition(topic, index)
        logs, settled = self.shared.logs, self.shared.loop.create_future()
        logs.opener.open([partition], lambda: settled.set_result(None))
        await settled
        where = self.leadership.image.placed(topic, index)
        if partition.topic.is_own:
            raise CannotCut(f"only the brokers write to {topic}")
        if logs.data.write_ahead is not None:
            raise CannotCut("nothing is cut off with --flush commit")
        if where is None or where.leader_id == NO_LEADER or partition.state is not OPEN:
            raise CannotCut(f"{partition} cannot be written to")
        self.shared.maintenance.release(partition)
        before, now_ms = partition.log, self.shared.environment.now_ms()
        try:
            partition.opened_log = cut_end(logs.data, topic, index, to_offset, now_ms)
        except OffsetOutOfRange as error:
            raise CannotCut(str(error)) from None
        self.shared.flusher.forget(before)
        partition.first_sequences = None
        self.leadership.change(led_uncleanly(self.leadership.image, topic, index))
        for watcher in list(partition.watchers):
            watcher.finish()
        self._log.info("log cut", topic=topic, partition=index, end=partition.log.log_end_offset)

    def _partition(self, topic: str, index: int) -> Partition:
        found = self.shared.topics.find(topic)
        partition = None if found is None else found.partition(index)
        if partition is None:
            raise UnknownNode(f"there is no partition {topic}-{index}")
        return partition
