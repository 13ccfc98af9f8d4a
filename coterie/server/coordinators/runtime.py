"""The runtime of a coordinator: requests in, what it returns carried out, partitions loaded.

A coordinator is a `Machine`, which is pure: it returns what is to be done. This module is the only
place that does it: records are appended (appends.py), responses sent, the timer set. The partitions
of the coordinator's topic are taken over, given up and stopped here; loading.py reads them.
What concerns one kind of coordinator only is in subclasses.

Invariant: a partition is written to only between the end of its load and the moment it is given up
or fails. After the first failed write or sync it is not written to until the next start.
"""

from asyncio import TimerHandle
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from coterie.coordinator.kernel.append import Append
from coterie.coordinator.kernel.effects import Effects, Reply
from coterie.coordinator.kernel.machine import Machine
from coterie.coordinator.kernel.request import RequestContext
from coterie.protocol.errors import ErrorCode
from coterie.server.cluster.ownership import Claim
from coterie.server.coordinators.appends import Appends
from coterie.server.coordinators.host import Host
from coterie.server.coordinators.loading import Loading
from coterie.server.network.delayed_response import CompletedResponse, DelayedResponse, Exchange
from coterie.storage.log import Log

if TYPE_CHECKING:
    from coterie.server.logs.partition import Partition

# A request and its response.
Q = TypeVar("Q")
R = TypeVar("R")

# The leader epoch of a partition that no broker has led before. A log that was led before has the
# epoch in its batches.
FIRST_EPOCH = 0


def context_of(connection: Exchange, delayed: DelayedResponse) -> RequestContext:
    """Return where the request comes from that a connection is handling."""
    return RequestContext(connection.client, connection.route.version, delayed)


class CoordinatorRuntime:
    """Runs a coordinator on the event loop."""

    def __init__(
        self,
        host: Host,
        machine: Machine,
        *,
        kind: str,
        codec: int,
        failed: Callable[[int], None],
    ) -> None:
        """Run `machine`, which owns no partition before `take_over`.

        Args:
            host: the surroundings.
            machine: the coordinator.
            kind: what it is about, such as "group", for log lines.
            codec: the codec of the batches that are written.
            failed: called with a partition that is not served any more.
        """
        self._host = host
        self._machine = machine
        self._kind = kind
        self._partition_failed = failed
        self._partitions: list[Partition] = []
        self._appends = Appends(
            host, kind, codec, machine.encode, self._appended, self._fail, self._reload
        )
        self._loading = Loading(host, kind, machine, self._loaded, self._not_loaded)
        self._timer: TimerHandle | None = None
        self._timer_ms = 0
        self._holds_timer = False

    # --- requests ---------------------------------------------------------------------------------

    def submit(
        self,
        verb: Callable[[int, Q, RequestContext], Effects[R]],
        request: Q,
        connection: Exchange,
        *,
        mutes_connection: bool = False,
        complete: Callable[[R], R] | None = None,
    ) -> R | None:
        """Submit a request to the coordinator.

        Args:
            verb: a method of the coordinator.
            request: its argument, decoded.
            connection: the connection of the request.
            mutes_connection: a delayed response mutes the connection until it is sent.
            complete: adds to the response what the coordinator does not know.

        Returns:
            The response, or None if it is delayed.
        """
        # Made before it is known whether the response is delayed: the coordinator keeps it as the
        # address of the response.
        delayed = (
            DelayedResponse(connection)
            if complete is None
            else CompletedResponse(connection, complete)
        )
        effects = verb(connection.now_ms, request, context_of(connection, delayed))
        return self.answer(effects, delayed, mutes_connection=mutes_connection, complete=complete)

    def answer(
        self,
        effects: Effects[R],
        delayed: DelayedResponse,
        *,
        mutes_connection: bool = False,
        complete: Callable[[R], R] | None = None,
    ) -> R | None:
        """Carry out what a method of the coordinator has returned for a request; see `submit`.

        The most frequent requests come here: their handlers call the method themselves, which takes
        less time than through a value.

        Args:
            effects: what was returned.
            delayed: the address of the response that the method was given.
            mutes_connection: a delayed response mutes the connection until it is sent.
            complete: adds to the response what the coordinator does not know.

        Returns:
            The response, or None if it is delayed.
        """
        connection = delayed.connection
        response = effects.response
        if response is None:
            # Queued before the effects are applied: they may send this very response.
            if mutes_connection:
                connection.delay_and_mute(delayed)
            else:
                connection.delay(delayed)
            self.apply(effects)
            return None
        if complete is not None:
            response = complete(response)
        if not effects.quiet:
            self.apply(effects)
        return response

    def submit_delayed(
        self,
        verb: Callable[[int, Q, RequestContext], Effects[R]],
        request: Q,
        context: RequestContext,
        delayed: DelayedResponse,
    ) -> None:
        """Submit a request whose response is delayed already: it has waited for something else.

        Args:
            verb: a method of the coordinator.
            request: its argument, decoded.
            context: where the request comes from, with `delayed` as the address of the response.
            delayed: the place of the response in the queue of its connection.
        """
        effects = verb(self._host.now_ms(), request, context)
        if effects.response is not None:
            delayed.send(effects.response)
        if not effects.quiet:
            self.apply(effects)

    def apply(self, effects: Effects[Any]) -> None:
        """Queue the records, send the responses, set the timer; subclasses do the rest."""
        # Most effects have one of the two, and what there is is a list.
        appends, replies = effects.appends, effects.replies
        if isinstance(appends, list):
            append: Append
            for append in appends:
                self._appends.queue(append)
        if isinstance(replies, list):
            self.send(replies)
        if effects.moves_deadline:
            self._set_timer()

    def send(self, replies: Sequence[Reply]) -> None:
        """Send responses; one that fails by a mistake of ours stops no others."""
        for reply in replies:
            try:
                reply.to.send(reply.message)  # type: ignore[attr-defined]  # opaque to the coordinator
            except Exception as mistake:  # noqa: BLE001 - reported below
                self._report(mistake)

    def _report(self, mistake: Exception) -> None:
        """Let the loop report a mistake of ours, after everything else of this turn is done."""
        self._host.loop.call_soon(_raise, mistake)

    # --- partitions -------------------------------------------------------------------------------

    def take_over(self, partitions: "list[Partition]") -> None:
        """Begin to load those of a topic's partitions that this broker leads.

        Until they are loaded requests get COORDINATOR_LOAD_IN_PROGRESS.
        """
        self._partitions = self._appends.partitions = partitions
        for partition in partitions:
            if self._host.leads(partition) and self._machine.begin_load(
                partition.index, FIRST_EPOCH
            ):
                self._loading.add(partition)

    async def load(self) -> None:
        """Load every partition that was added; a damaged one is not served, the others are."""
        await self._loading.finish()

    def schedule_load(self) -> None:
        """Load every partition that was added, in later turns of the loop."""
        self._loading.schedule()

    def epoch(self, index: int) -> int:
        """Return the leader epoch in which a partition is or was owned; -1 for none yet."""
        return self._machine.epoch(index)

    def is_loading(self, index: int) -> bool:
        """Return whether a partition is being loaded."""
        return self._loading.is_loading(index)

    def owned(self) -> list[Claim]:
        """Return the partitions that are owned or being loaded, with their epochs."""
        return [
            Claim(each.index, self.epoch(each.index))
            for each in self._partitions
            if self._appends.owns(each.index) or self.is_loading(each.index)
        ]

    def loading_partitions(self) -> list[int]:
        """Return the partitions that are being loaded."""
        return [each.index for each in self._partitions if self.is_loading(each.index)]

    def load_partition(self, index: int, epoch: int) -> None:
        """Take a partition over and load it in later turns of the loop [coordinator/epochs].

        Args:
            index: the partition.
            epoch: the new leader epoch; ignored unless it is larger than the current one. A
                partition that is owned or loading stays so, and is written to in the new epoch.
        """
        partition = self._partitions[index]
        if self._machine.begin_load(index, epoch):
            self._loading.add(partition)
            self._loading.schedule()
        elif partition.opened_log is not None:
            partition.lead(max(partition.leader_epoch, self.epoch(index)))

    def unload_partition(self, index: int, epoch: int | None = None) -> None:
        """Give a partition up [coordinator/unload].

        A load of it ends. Delayed requests get NOT_COORDINATOR, and what is not durable yet is
        never acknowledged.

        Args:
            index: the partition.
            epoch: the epoch of the new leader; ignored unless it is larger than the current one.
                With None the partition is given up in any case.
        """
        if epoch is not None and epoch <= self.epoch(index):
            return
        self._disown(index)
        self.apply(self._machine.unload(index, epoch, self._host.now_ms()))

    def hold(self, index: int) -> None:
        """Note that the high watermark of a partition is held [cluster/waiting-groups]."""
        if self._appends.owns(index):
            self.apply(self._machine.hold(index, self._host.now_ms()))

    def release(self, index: int) -> None:
        """Acknowledge what has waited for the high watermark of a partition."""
        if self._appends.owns(index):
            self.apply(self._machine.release(index))
            self._appends.release(index)

    def write(self) -> None:
        """Write the queued records now instead of at the end of this turn of the loop."""
        self._appends.write()

    def unsynced_logs(self) -> list[tuple[int, Log]]:
        """Return the logs of the owned partitions that have something to sync, with the indexes."""
        return self._appends.unsynced_logs()

    def log_failed(self, log: Log, error: Exception) -> None:
        """Stop the partition of a log that could not be synced, if it is one of ours."""
        for partition in self._partitions:
            if partition.opened_log is log:
                self._fail(partition.index, error)

    def load_ended(self, index: int) -> None:
        """Note that a partition is loaded now, or is not loaded any more. For subclasses."""

    def _appended(self, written: list[tuple[int, int]], now_ms: int) -> None:
        effects = self._machine.appended(written, now_ms)
        self.apply(effects)
        for mistake in effects.mistakes:
            self._report(mistake)

    def _disown(self, index: int) -> None:
        self._loading.forget(index)
        self._appends.end(index)
        self.load_ended(index)

    def _loaded(self, index: int, effects: Effects[Any]) -> None:
        self._appends.begin(index)
        self.apply(effects)
        if self._partitions[index].held_end is not None:
            self.hold(index)
        self.load_ended(index)

    def _not_loaded(self, index: int, _error: Exception) -> None:
        self.apply(self._machine.fail(index, self._host.now_ms()))
        self.load_ended(index)
        self._partition_failed(index)

    def _fail(self, index: int, error: Exception) -> None:
        """Stop a partition; what it has not acknowledged is never acknowledged."""
        self._disown(index)
        line = f"{self._kind} partition failed"
        self._host.log.error(line, partition=index, error=str(error))
        self.apply(self._machine.fail(index, self._host.now_ms()))
        self._partition_failed(index)

    def _reload(self, index: int) -> None:
        """Load a partition again whose log does not end where memory expects it.

        Requests that wait for it get an error.
        """
        line = f"{self._kind} log changed unexpectedly, loading it again"
        self._host.log.error(line, partition=index)
        self._disown(index)
        now_ms = self._host.now_ms()
        self.apply(self._machine.append_failed(index, ErrorCode.NOT_COORDINATOR, now_ms))
        self._loading.add(self._partitions[index])
        self._loading.schedule()

    # --- time -------------------------------------------------------------------------------------

    def hold_timer(self) -> None:
        """Let no deadline end before `release_timer`: the broker is paused."""
        self._holds_timer = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def release_timer(self) -> None:
        """Let deadlines end again."""
        self._holds_timer = False
        self._set_timer()

    def _set_timer(self) -> None:
        """Set the timer to the coordinator's next deadline, unless it fires earlier already."""
        deadline_ms = self._machine.next_deadline_ms()
        if deadline_ms is None or self._holds_timer:
            return
        if self._timer is not None:
            if self._timer_ms <= deadline_ms:
                return
            self._timer.cancel()
        self._timer_ms = deadline_ms
        delay_ms = max(0, deadline_ms - self._host.now_ms())
        self._timer = self._host.loop.call_later(delay_ms / 1000, self._timer_fired)

    def _timer_fired(self) -> None:
        self._timer = None
        try:
            self.apply(self._machine.advance(self._host.now_ms()))
        finally:
            # A mistake of ours in one timer, which the loop reports, stops no others.
            self._set_timer()

    # --- the end ----------------------------------------------------------------------------------

    def stop(self) -> None:
        """Give up all partitions: delayed requests get NOT_COORDINATOR."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now_ms = self._host.now_ms()
        for partition in self._partitions:
            self._disown(partition.index)
            self.stopped(self._machine.unload(partition.index, None, now_ms))

    def stopped(self, effects: Effects[Any]) -> None:
        """Carry out what follows from giving a partition up at the end: no timers, no appends."""
        assert not effects.appends, "nothing is written for a partition that was given up"
        self.send(effects.replies)


def _raise(mistake: Exception) -> None:
    raise mistake
