"""The runtime of the transaction coordinator: its topic, its markers, and what others use of it.

`__transaction_state` is created when a client looks for the coordinator of a transactional id
[transactions/topic].
"""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from coterie.coordinator.kernel.effects import Effects
from coterie.coordinator.kernel.request import ClientContext, RequestContext
from coterie.coordinator.transactions.service import TransactionCoordinator
from coterie.protocol.control_records import TransactionMarkers
from coterie.protocol.errors import ErrorCode
from coterie.protocol.topic_names import TRANSACTIONS_TOPIC
from coterie.server.controller import Controller
from coterie.server.coordinators.created_topic import CreatedTopicRuntime
from coterie.server.coordinators.host import Host
from coterie.server.network.delayed_response import DelayedResponse
from coterie.server.transactions.use import TransactionUse, TransactionUses

# The client of the coordinator when a partition is used by a request to this broker.
_BROKER = ClientContext()
# Batches of the log are never compressed, as in Kafka.
_NO_CODEC = 0
# When it is tried again to log the end of a transaction after too few replicas were in sync.
_RETRY_S = 0.5

# The producer of a decided transaction: partition of the log, transactional id, producer and epoch.
_Ending = tuple[int, str, int, int]


# A request.
Q = TypeVar("Q")


class Markers(Protocol):
    """Writes markers."""

    def write(self, markers: TransactionMarkers, done: Callable[[], None]) -> None:
        """Append the markers of a transaction, and call `done` when all are durable."""

    def forget(self, markers: TransactionMarkers) -> None:
        """Do not try the markers of a transaction again."""


class _Use:
    """Takes the answer of the coordinator to a use of partitions that changes a transaction.

    Attributes:
        done: called with the answer; None as long as the caller can be given the answer itself.
        answer: the answer, if it was given before `done` was set.
    """

    __slots__ = ("answer", "done")

    def __init__(self) -> None:
        self.done: Callable[[ErrorCode], None] | None = None
        self.answer: ErrorCode | None = None

    def send(self, answer: ErrorCode) -> None:
        """Take the answer: the record is durable, or could not be written."""
        if self.done is None:
            self.answer = answer
        else:
            self.done(answer)


class TransactionRuntime(CreatedTopicRuntime, TransactionUses):
    """Runs the transaction coordinator on the event loop.

    Attributes:
        coordinator: the coordinator.
    """

    def __init__(
        self,
        host: Host,
        coordinator: TransactionCoordinator,
        controller: Controller,
        markers: Markers,
    ) -> None:
        """Run `coordinator`, with the partitions of its topic if that exists.

        Args:
            host: the surroundings.
            coordinator: the coordinator.
            controller: creates the coordinator's topic.
            markers: writes markers.
        """
        super().__init__(
            host,
            coordinator,
            controller,
            topic_name=TRANSACTIONS_TOPIC,
            kind="transaction",
            codec=_NO_CODEC,
        )
        self.coordinator = coordinator
        self._markers = markers
        # The transactions whose markers are being written.
        self._ending: dict[_Ending, TransactionMarkers] = {}
        self.begin()

    # --- the topic --------------------------------------------------------------------------------

    def set_partitions(self, count: int) -> None:
        """See the base class."""
        self.coordinator.set_partitions(count)

    @property
    def state_partitions(self) -> int:
        """See the base class."""
        return self.coordinator.config.state_partitions

    def unload_partition(self, index: int, epoch: int | None = None) -> None:
        """Give a partition up; its transactions that are ending are ended by the next owner."""
        super().unload_partition(index, epoch)
        for ending in [each for each in self._ending if each[0] == index]:
            self._markers.forget(self._ending.pop(ending))

    def stop(self) -> None:
        """Give up all partitions; another broker, or the next start, ends their transactions."""
        super().stop()
        for markers in self._ending.values():
            self._markers.forget(markers)
        self._ending.clear()

    # --- requests ---------------------------------------------------------------------------------

    def submit_later(
        self,
        verb: Callable[[int, Q, RequestContext], Effects[Any]],
        request: Q,
        client: ClientContext,
        version: int,
        delayed: DelayedResponse,
    ) -> None:
        """Submit a request whose response is delayed already, as `submit` does with others.

        Args:
            verb: a method of the coordinator.
            request: its argument, decoded.
            client: who sent it.
            version: the version of the request.
            delayed: its response.
        """
        context = RequestContext(client, version, delayed)
        effects = verb(self._host.now_ms(), request, context)
        if effects.response is not None:
            delayed.send(effects.response)
        self.apply(effects)

    # --- effects ----------------------------------------------------------------------------------

    def apply(self, effects: Effects[Any]) -> None:
        """Send the responses, set the timer, have markers written, and write the records.

        Each record is a batch of its own [transactions/log-records], so it is written at once: what
        follows from it needs no other turn of the event loop, unless it waits for the disk.
        """
        self.send(effects.replies)
        if effects.moves_deadline:
            self._set_timer()
        for markers in effects.markers:
            self._write(markers)
        if effects.appends:
            self._appends.write_now(effects.appends)

    def _write(self, markers: TransactionMarkers) -> None:
        ending = (
            markers.log_partition,
            markers.transactional_id,
            markers.producer_id,
            markers.producer_epoch,
        )
        if ending in self._ending:
            # The partition was loaded again. A second set of markers could end the transaction that
            # follows.
            return
        self._ending[ending] = markers

        def written() -> None:
            if ending not in self._ending:
                # The partition was given up: another broker coordinates the transaction.
                return
            if self.coordinator.shards[markers.log_partition].holds:
                self._host.loop.call_later(_RETRY_S, written)
                return
            del self._ending[ending]
            self.apply(self.coordinator.markers_written(*ending, self._host.now_ms()))

        self._markers.write(markers, written)

    # --- partitions that are written to -----------------------------------------------------------

    def use_partitions(
        self, use: TransactionUse, done: Callable[[ErrorCode], None]
    ) -> ErrorCode | None:
        """Verify or add partitions; see the base class."""
        to = _Use()
        effects = self.coordinator.use_partitions(
            self._host.now_ms(), use, RequestContext(_BROKER, 0, to)
        )
        if effects.response is not None:
            return effects.response
        if not effects.quiet:
            self.apply(effects)
        to.done = done
        return to.answer
