"""Several brokers for a test of failover: they are killed, stopped, started, and led elsewhere.

    with cluster(brokers=3) as kafka:
        run_service(kafka.bootstrap_servers)
        kafka.kill(kafka.coordinator_of("billing"))

In a coroutine it is `async with`, and what waits is awaited, as with a single broker. All brokers
run in one thread, over the same logs; see docs/cluster.md.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from coterie.server.brokers import Cluster as Brokers
from coterie.server.brokers import UnknownNode
from coterie.server.cluster.image import CoordinatorType, Placement
from coterie.testing.bounds import check
from coterie.testing.errors import WrongUse
from coterie.testing.pausing import Gate
from coterie.testing.running_cluster import MOST_REPLICAS, RunningCluster
from coterie.testing.waiting import DEFAULT_TIMEOUT_S, Waiting, until


class Cluster(RunningCluster):
    """A cluster that runs from `start` to `close`, or in a `with` or `async with` block."""

    # --- for clients ------------------------------------------------------------------------------

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all brokers, as host:port,host:port."""
        _ = self._running
        return ",".join(map(str, self._addresses.values()))

    def address(self, node_id: int) -> str:
        """Return the address of a broker, as host:port."""
        _ = self._running
        if node_id not in self._addresses:
            raise WrongUse(f"there is no broker {node_id}")
        return str(self._addresses[node_id])

    # --- what is where ----------------------------------------------------------------------------

    @property
    def brokers(self) -> list[int]:
        """The ids of the brokers that run."""
        return self._call(lambda brokers: sorted(brokers.brokers))

    def leader_of(self, topic: str, partition: int = 0) -> int | None:
        """Return the broker that leads a partition; None if none does."""
        leader_id = self._placement(topic, partition).leader_id
        return None if leader_id < 0 else leader_id

    def epoch_of(self, topic: str, partition: int = 0) -> int:
        """Return the leader epoch of a partition."""
        return self._placement(topic, partition).leader_epoch

    def isr_of(self, topic: str, partition: int = 0) -> list[int]:
        """Return the brokers that are in sync for a partition."""
        return list(self._placement(topic, partition).isr)

    def coordinator_of(self, group_id: str) -> int | None:
        """Return the broker that coordinates a group; None if none does."""
        return self._call(
            lambda brokers: brokers.leadership.image.coordinator(CoordinatorType.GROUP, group_id)
        )

    def transaction_coordinator_of(self, transactional_id: str) -> int | None:
        """Return the broker that coordinates the transactions of an id; None if none does."""
        kind = CoordinatorType.TRANSACTION
        return self._call(
            lambda brokers: brokers.leadership.image.coordinator(kind, transactional_id)
        )

    def _placement(self, topic: str, partition: int) -> Placement:
        check(partition=partition)
        found = self._call(lambda brokers: brokers.leadership.image.placed(topic, partition))
        if found is None:
            raise WrongUse(f"there is no partition {topic}-{partition}: create it with topic()")
        return found

    # --- topics -----------------------------------------------------------------------------------

    def topic(
        self,
        name: str,
        partitions: int = 1,
        records: Iterable[Any] = (),
        config: Mapping[str, str] | None = None,
        *,
        replicas: int | Sequence[Sequence[int]] | None = None,
    ) -> str:
        """Create a topic; return its name.

        Args:
            name: its name.
            partitions: their number.
            records: values to produce, in turn to each partition; see `produce`.
            config: settings of the topic.
            replicas: how many replicas each has, or the brokers of each, the leader first; by
                default as many as there are brokers, but no more than three.

        Raises:
            WrongUse: it exists already, or a value cannot be used; the text is Kafka's.
        """
        check(replicas=replicas if isinstance(replicas, int) else None)
        wanted = min(MOST_REPLICAS, self._count) if replicas is None else replicas
        return self._create(name, partitions, records, config, wanted)

    # --- what goes wrong --------------------------------------------------------------------------

    def kill(self, node_id: int | None, detect_ms: int = 0) -> Waiting[None]:
        """End a broker as `kill -9` does: its connections are reset, and nothing is answered.

        Args:
            node_id: the broker, such as that of `coordinator_of`.
            detect_ms: after which time the others learn of it; until then they name it as before.

        Raises:
            WrongUse: it does not run.
        """
        check(detect_ms=detect_ms)
        return self._do(lambda brokers: brokers.kill(_named(node_id), detect_ms))

    def stop(self, node_id: int | None) -> Waiting[None]:
        """Stop a broker in order, as SIGTERM does: others take over before it ends.

        Raises:
            WrongUse: it does not run.
        """
        return self._wait(lambda brokers: brokers.stop_broker(_named(node_id)))

    @contextmanager
    def paused(self, node_id: int | None, detect_ms: int | None = None) -> Iterator[None]:
        """Pause a broker during a block, as SIGSTOP does: it keeps its connections, and is silent.

        Args:
            node_id: the broker.
            detect_ms: after which time the others take it for dead; None for never.

        Raises:
            WrongUse: it does not run.
        """
        paused = _named(node_id)
        gate = self._close_gate(paused, detect_ms)
        try:
            yield
        finally:
            self._open_gate(paused, gate)

    def pause(self, node_id: int | None, detect_ms: int | None = None) -> None:
        """Pause a broker until `resume`; see `paused`.

        Args:
            node_id: the broker.
            detect_ms: after which time the others take it for dead; None for never.

        Raises:
            WrongUse: it does not run.
        """
        self._close_gate(_named(node_id), detect_ms)

    def resume(self, node_id: int | None) -> None:
        """Let a paused broker go on; it is in sync again if the others have taken it for dead.

        Raises:
            WrongUse: it is not paused.
        """
        resumed = _named(node_id)
        if resumed not in self.paused_brokers:
            raise WrongUse(f"broker {resumed} is not paused")
        self._open_gate(resumed, self._gates[resumed])

    @property
    def paused_brokers(self) -> list[int]:
        """The ids of the brokers that run and are paused."""
        return self._call(
            lambda brokers: [
                each for each in sorted(brokers.brokers) if self._gates[each].is_closed
            ]
        )

    def _close_gate(self, node_id: int, detect_ms: int | None) -> Gate:
        check(detect_ms=detect_ms)

        def close(brokers: Brokers) -> Gate:
            brokers.running(node_id)
            gate = self._gates[node_id]
            gate.close()
            if detect_ms is not None:
                brokers.shared.loop.call_later(detect_ms / 1000, detect, brokers, gate)
            return gate

        def detect(brokers: Brokers, gate: Gate) -> None:
            if gate.is_closed and self._gates.get(node_id) is gate and node_id in brokers.brokers:
                brokers.detect(node_id)

        try:
            return self._call(close)
        except UnknownNode as error:
            raise WrongUse(str(error)) from None

    def _open_gate(self, node_id: int, gate: Gate) -> None:
        def reopen(brokers: Brokers) -> None:
            gate.open()
            if self._gates.get(node_id) is gate and node_id in brokers.brokers:
                brokers.rejoin(node_id)

        self._call(reopen)

    def move(self, topic: str, partition: int = 0, *, to: int) -> Waiting[None]:
        """Let another broker lead a partition; its leader epoch grows by one.

        Raises:
            WrongUse: the broker does not run, or there is no such partition.
        """
        check(partition=partition, to=to)
        return self._do(lambda brokers: brokers.move(topic, partition, to))

    def cut(self, topic: str, partition: int = 0, *, to_offset: int) -> Waiting[None]:
        """Take the end of a partition away, as an unclean election does.

        The records from `to_offset` on are gone, acknowledged or not, and later ones get their
        offsets. If the offset is within a batch, all of the batch is gone. Another replica leads,
        if there is one; the leader epoch grows by one.

        Raises:
            WrongUse: there is no such partition, or it does not have the offset; only brokers write
                it; it has no leader; or the brokers have `flush="commit"`.
        """
        check(partition=partition, to_offset=to_offset)
        return self._wait(lambda brokers: brokers.cut(topic, partition, to_offset))

    def move_coordinator(self, group_id: str, *, to: int) -> Waiting[None]:
        """Let another broker coordinate a group, with all groups of the same partition.

        Raises:
            WrongUse: the broker does not run.
        """
        check(to=to)
        kind = CoordinatorType.GROUP
        return self._do(lambda brokers: brokers.move_coordinator(kind, group_id, to))

    def move_transaction_coordinator(self, transactional_id: str, *, to: int) -> Waiting[None]:
        """Let another broker coordinate the transactions of an id, with all of its partition.

        Raises:
            WrongUse: the broker does not run, or nothing has used a transaction yet.
        """
        check(to=to)
        kind = CoordinatorType.TRANSACTION
        return self._do(lambda brokers: brokers.move_coordinator(kind, transactional_id, to))

    def delay_metadata(self, milliseconds: int) -> None:
        """Let clients be shown each change so much later; the brokers know it at once.

        Raises:
            WrongUse: the number is negative.
        """
        check(milliseconds=milliseconds)

        def delay(brokers: Brokers) -> None:
            brokers.leadership.propagation_ms = milliseconds

        self._call(delay)

    # --- waits ------------------------------------------------------------------------------------

    def wait_leader(
        self,
        topic: str,
        partition: int = 0,
        *,
        node_id: int | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> Waiting[None]:
        """Wait until a broker leads a partition and runs: a certain one, or any.

        Raises:
            WaitTimedOut: it does not in time.
        """

        check(partition=partition, node_id=node_id)

        def led(brokers: Brokers) -> bool:
            leader = brokers.leadership.leader(topic, partition)
            return leader is not None and node_id in (None, leader.node_id)

        who = "a broker" if node_id is None else f"broker {node_id}"
        return self._until(led, f"{who} leads {topic}-{partition}", timeout_s)

    def wait_coordinator(
        self,
        group_id: str,
        *,
        node_id: int | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> Waiting[None]:
        """Wait until a broker coordinates a group and has loaded it: a certain one, or any.

        Raises:
            WaitTimedOut: it does not in time.
        """

        check(node_id=node_id)

        def coordinates(brokers: Brokers) -> bool:
            found = brokers.leadership.coordinator(CoordinatorType.GROUP, group_id)
            if found is None or node_id not in (None, found.node_id):
                return False
            index = found.groups.coordinator.partition_for(group_id)
            return not found.groups.is_loading(index)

        who = "a broker" if node_id is None else f"broker {node_id}"
        return self._until(coordinates, f"{who} coordinates group '{group_id}'", timeout_s)

    def wait_isr(
        self,
        topic: str,
        partition: int = 0,
        *,
        isr: Sequence[int],
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> Waiting[None]:
        """Wait until exactly these brokers are in sync for a partition.

        Raises:
            WaitTimedOut: they are not in time.
        """

        check(partition=partition)

        def in_sync(brokers: Brokers) -> bool:
            where = brokers.leadership.image.placed(topic, partition)
            return where is not None and sorted(where.isr) == sorted(isr)

        return self._until(in_sync, f"the ISR of {topic}-{partition} is {sorted(isr)}", timeout_s)

    def _until(
        self, condition: Callable[[Brokers], bool], what: str, timeout_s: float
    ) -> Waiting[None]:
        check(timeout_s=timeout_s)
        brokers, thread = self._running, self.thread

        def picture() -> str:
            return f"live brokers: {', '.join(map(str, sorted(brokers.brokers))) or 'none'}"

        async def wait() -> None:
            await until(thread, lambda: condition(brokers), what, timeout_s, picture)

        return Waiting(thread, wait())


def cluster(brokers: int = 3, **options: Any) -> Cluster:
    """Return a cluster that is not started; see `Cluster` for the options."""
    return Cluster(brokers, **options)


def _named(node_id: int | None) -> int:
    if node_id is None:
        raise WrongUse("there is no such broker now: nothing leads or coordinates that")
    check(node_id=node_id)
    return node_id
