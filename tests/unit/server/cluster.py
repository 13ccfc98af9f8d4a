"""Brokers of a cluster without sockets, threads and real time, and clients for them."""

import time
from collections.abc import Coroutine, Sequence
from typing import Any

from coterie.address import Address
from coterie.server.broker import Broker
from coterie.server.brokers import Cluster
from coterie.server.config.config import Config
from coterie.server.config.listeners import Listener
from coterie.server.data_place import IN_MEMORY
from coterie.server.logs.flusher import FlushMode
from coterie.server.shared_parts import SharedParts
from coterie.storage.filesystem import FileSystem
from tests.unit.server.manual import NEVER, Client, ManualEnvironment
from tests.unit.server.manual_loop import ManualLoop

_SETTINGS = {"offsets.topic.num.partitions": "6", "group.initial.rebalance.delay.ms": "0"}


class ManualCluster:
    """A cluster on a manual loop, whose broker 1 has port 9001.

    Attributes:
        cluster: the brokers.
        loop: the loop.
    """

    def __init__(
        self,
        settings: dict[str, str] | None = None,
        *,
        brokers: int = 3,
        flush: FlushMode = NEVER,
        filesystem: FileSystem | None = None,
    ) -> None:
        self.loop = ManualLoop()
        shared = SharedParts(
            Config({**_SETTINGS, **(settings or {})}),
            IN_MEMORY,
            ManualEnvironment(self.loop),
            flush=flush,
            filesystem=filesystem,
            brokers=brokers,
        )
        self.cluster = Cluster(shared, serve=serve_in_memory)
        self.complete(
            self.cluster.start(
                {
                    node_id: [Listener(Address("127.0.0.1", 9000 + node_id))]
                    for node_id in shared.node_ids
                }
            )
        )
        self.leadership = self.cluster.leadership

    def complete(self, work: Coroutine[Any, Any, Any]) -> None:
        """Run a coroutine to its end."""
        try:
            while True:
                waited = work.send(None)
                self.loop.turn()
                while waited is not None and not waited.done():
                    if self.cluster.shared.flusher.commit:
                        # Its thread works in real time.
                        time.sleep(0.001)
                    self.loop.advance(1)
        except StopIteration:
            pass

    def client(self, node_id: int) -> Client:
        """Return a client that is connected to a broker."""
        return Client(self.cluster.brokers[node_id])

    def leads(self, topic: str, index: int = 0) -> tuple[int, int]:
        """Return the leader of a partition, and its epoch."""
        where = self.leadership.image.placements[topic][index]
        return where.leader_id, where.leader_epoch


async def serve_in_memory(broker: Broker, listeners: Sequence[Listener]) -> Sequence[Address]:
    """Let a broker load its groups; clients are accepted on transports in memory."""
    (listener,) = listeners
    broker.advertise(listener.name, listener.address)
    await broker.begin()
    return [listener.address]
