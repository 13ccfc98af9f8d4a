"""The life of one partition of a coordinator's topic: its operations, its load and unload.

What a verb writes is settled here: it changes memory at once, in order, and goes to the server to
be appended; its response is kept until that is durable [coordinator/durable-responses]. An
operation that only reads waits behind the appends before it, so that no client sees what could
still be lost [coordinator/reads-wait]. If an append fails, nothing is undone: every request that
waits is answered with the error, memory is discarded, and the partition is loaded again from its
log [coordinator/failed-append].

A kind of coordinator derives its shard from this one. It says what a record does to memory, what
follows from a durable append, and what is answered when the partition is given up. It does not
matter here who has started an operation: a request, a timer, the end of a load, or the result of
work that was done elsewhere.

While too few replicas are in sync, nothing is acknowledged: the partition is held. What only reads
does not wait then [cluster/waiting-groups].

Invariant: `unacknowledged` is in the order of the log.
"""

from typing import Any, TypeVar

from coterie.coordinator.kernel.append_errors import (
    LARGE_OPERATION_ERROR,
    translate_append_error,
)
from coterie.coordinator.kernel.effects import Effects
from coterie.coordinator.kernel.machine import OpenRecord
from coterie.coordinator.kernel.operation import Operation
from coterie.coordinator.kernel.response_parts import ResponsePart
from coterie.coordinator.kernel.shard_state import ACTIVE, ShardState
from coterie.protocol.errors import ErrorCode

# The effects of one verb.
E = TypeVar("E", bound=Effects[Any])

# The states of a partition that is loaded or being loaded, and of one that was given up.
_LOADED = (ACTIVE, ShardState.LOADING)
_GIVEN_UP = (ShardState.CLOSED, ShardState.FAILED)


class Shard:
    """One partition of a coordinator.

    Attributes:
        partition: its number.
        epoch: the leader epoch of its latest load or unload; -1 before the first.
        state: where it is in its life.
        unacknowledged: the operations whose records, or whose predecessors', are not durable yet.
        holds: whether nothing is acknowledged, because too few replicas are in sync.
        skipped_records: records of the latest load that were not understood.
        always_fitting_records: how many records fit a batch whatever they contain. Most operations
            have no more, so that their size need not be known.
    """

    def __init__(self, partition: int, always_fitting_records: int = 1) -> None:
        """Start without anything, not yet loaded."""
        self.partition = partition
        self.always_fitting_records = always_fitting_records
        self.epoch = -1
        self.state = ShardState.INITIAL
        self.unacknowledged: list[Operation] = []
        self.holds = False
        self.skipped_records = 0

    # -- what a kind of coordinator adds -----------------------------------------------------------

    @property
    def is_blank(self) -> bool:
        """Whether memory holds nothing."""
        raise NotImplementedError

    def fits(self, operation: Operation) -> bool:
        """Return whether the many records of an operation fit a batch [coordinator/operation-size].

        A verb whose records may be too many leaves memory as it is until they are applied.
        """
        raise NotImplementedError

    def apply(self, operation: Operation, now_ms: int, effects: Effects[Any]) -> None:
        """Change memory as an operation says. What it writes is in `records` or `marker` then."""
        raise NotImplementedError

    def complete(self, completion: Any, now_ms: int, effects: Effects[Any]) -> None:
        """Do what follows from a durable operation."""
        raise NotImplementedError

    def error_response(self, request: Any, error: ErrorCode, version: int) -> Any:
        """Return the response to a request that carries nothing but an error."""
        raise NotImplementedError

    def replay(self, key_bytes: bytes | None, value_bytes: bytes | None) -> None:
        """Apply one record of the log while loading.

        Raises:
            MalformedFrame: the record is not what its type says.
        """
        raise NotImplementedError

    def replay_open(self, record: OpenRecord) -> None:
        """Apply a record of a transaction that is open at the end of the log.

        Raises:
            MalformedFrame: the record is not what its type says.
        """
        raise NotImplementedError

    def loaded(self, now_ms: int, effects: Effects[Any]) -> None:
        """Begin to serve what the records add up to."""
        raise NotImplementedError

    def forget(
        self,
        error: ErrorCode,
        failed: set[str | None],
        now_ms: int,
        effects: Effects[Any],
        state: ShardState,
    ) -> None:
        """Answer the delayed requests, and forget everything that memory holds.

        Args:
            error: the reason for what is in `failed`; for all else it is NOT_COORDINATOR.
            failed: the keys of the operations that were not acknowledged.
            now_ms: the time.
            effects: receives replies, cancelled timers and events.
            state: the state afterwards.
        """
        raise NotImplementedError

    def held_error(
        self,
        operation: Operation,  # noqa: ARG002 - for subclasses
        request: Any,  # noqa: ARG002 - as above
        now_ms: int,  # noqa: ARG002 - as above
    ) -> ErrorCode:
        """Return why an operation that writes is refused while nothing is acknowledged.

        Returns:
            The error; NONE if it is written and waits for `release`.
        """
        return ErrorCode.NONE

    def held(self, operation: Operation, now_ms: int, effects: Effects[Any]) -> None:
        """Note an operation that is not acknowledged before `release`.

        Args:
            operation: the operation.
            now_ms: the time.
            effects: gets the response if that does not wait.
        """

    # -- operations --------------------------------------------------------------------------------

    def settle(
        self, effects: E, now_ms: int, request: Any = None, to: Any = None, version: int = 0
    ) -> E:
        """Turn what one verb returned into an operation of this shard.

        A response leaves at once if the verb writes nothing and nothing before it is
        unacknowledged; otherwise it is delayed.

        Args:
            effects: what the verb returned; changed in place and returned.
            now_ms: the time.
            request: the request, to build its error response if the append fails.
            to: the reply address of a delayed response.
            version: the version of the request.
        """
        assert self.state is ACTIVE, f"partition {self.partition} is {self.state}"
        operation = effects.operation
        if operation is not None:
            assert operation.key is not None, "an operation that writes has a key"
            effects.operation = None
            many = len(operation.records) > self.always_fitting_records
            if many and not self.fits(operation):
                assert effects.quiet, f"{effects!r} of an operation that is refused"
                assert operation.completion is None, f"{request} checks the size itself"
                effects.response = self.error_response(request, LARGE_OPERATION_ERROR, version)
                return effects
            if self.holds:
                error = self.held_error(operation, request, now_ms)
                if error:
                    effects.response = self.error_response(request, error, version)
                    return effects
            self.apply(operation, now_ms, effects)
            assert operation.records or operation.marker is not None, "an append has records"
            operation.partition = self.partition
            effects.append(operation)
        elif effects.response is None or not self.unacknowledged or self.holds:
            return effects
        else:
            operation = Operation(None)
        operation.response, effects.response = effects.response, None
        operation.request = request
        operation.to = to
        operation.version = version
        self.unacknowledged.append(operation)
        if self.holds:
            self.held(operation, now_ms, effects)
        return effects

    def appended(self, operations: int, now_ms: int, effects: Effects[Any]) -> None:
        """Acknowledge the oldest appends: send their responses, and those of reads behind them."""
        assert operations >= 0, "a number of appends is not negative"
        unacknowledged = self.unacknowledged
        done = 0
        # Operations that a completion adds are at the end of the list.
        for operation in unacknowledged:
            if operation.key is not None:
                if not operations:
                    break
                operations -= 1
            done += 1
            if operation.durable_events:
                effects.add_events(operation.durable_events)
            if operation.response is not None:
                send_response(operation.to, operation.response, effects)
            if operation.completion is not None:
                try:
                    self.complete(operation.completion, now_ms, effects)
                except Exception as mistake:  # noqa: BLE001 - a mistake of ours stays in its group
                    effects.mistakes = [*effects.mistakes, mistake]
        if done == len(unacknowledged):
            unacknowledged.clear()
        else:
            del unacknowledged[:done]
        assert not operations, "the server acknowledges the appends that it was given, and no more"

    def hold(
        self,
        now_ms: int,  # noqa: ARG002 - for subclasses
        effects: Effects[Any],  # noqa: ARG002 - as above
    ) -> None:
        """Acknowledge nothing until `release` [cluster/waiting-groups]."""
        assert self.state is ACTIVE, f"partition {self.partition} is {self.state}"
        self.holds = True

    def release(self, effects: Effects[Any]) -> None:  # noqa: ARG002 - for subclasses
        """Let what waits be acknowledged."""
        self.holds = False

    def append_failed(self, error: ErrorCode, now_ms: int, effects: Effects[Any]) -> None:
        """Discard what memory holds and start to load the log again [coordinator/failed-append].

        The epoch stays. Requests that wait for an append, and delayed requests of groups that have
        lost one, are answered with the translated error; other delayed requests with
        NOT_COORDINATOR.
        """
        assert error, "an append that fails has an error"
        self._discard(translate_append_error(error), now_ms, effects, ShardState.FAILED)
        self._begin_load()

    # -- load and unload ---------------------------------------------------------------------------

    def begin_load(self, epoch: int) -> bool:
        """Start to load; return False if there is nothing to load [coordinator/epochs]."""
        if epoch <= self.epoch:
            return False
        self.epoch = epoch
        if self.state is ACTIVE or self.state is ShardState.LOADING:
            return False
        self._begin_load()
        return True

    def _begin_load(self) -> None:
        assert self.epoch >= 0, f"partition {self.partition} is loaded without an epoch"
        assert self.state not in _LOADED, f"partition {self.partition} is {self.state} already"
        assert self.is_blank, f"partition {self.partition} is loaded twice"
        assert not self.unacknowledged, f"partition {self.partition} has operations"
        self.state = ShardState.LOADING
        self.skipped_records = 0

    def finish_load(self, now_ms: int, effects: Effects[Any], skipped_records: int = 0) -> None:
        """Serve what the log describes.

        Args:
            now_ms: the time.
            effects: receives what follows from the load.
            skipped_records: the number of records that the reader of the log has left out.
        """
        assert self.state is ShardState.LOADING, f"partition {self.partition} is {self.state}"
        assert not self.unacknowledged, f"partition {self.partition} has written before its load"
        assert skipped_records >= 0, "a number of records is not negative"
        self.skipped_records += skipped_records
        self.state = ACTIVE
        self.loaded(now_ms, effects)

    def unload(self, now_ms: int, effects: Effects[Any], state: ShardState) -> None:
        """Give the partition up and answer every delayed request [coordinator/unload].

        Args:
            now_ms: the time.
            effects: receives replies, cancelled timers and events.
            state: CLOSED or FAILED.
        """
        assert state in _GIVEN_UP, f"partition {self.partition} is given up and {state}"
        self._discard(ErrorCode.NOT_COORDINATOR, now_ms, effects, state)

    def _discard(
        self, error: ErrorCode, now_ms: int, effects: Effects[Any], state: ShardState
    ) -> None:
        """Answer everything that waits, and forget everything.

        Args:
            error: for the unacknowledged operations, and the delayed requests of their groups.
            now_ms: the time.
            effects: receives replies, cancelled timers and events.
            state: the state afterwards.
        """
        assert error, "a request that is given up is answered with an error"
        for operation in self.unacknowledged:
            if operation.response is not None:
                response = self.error_response(operation.request, error, operation.version)
                send_response(operation.to, response, effects)
        failed = {operation.key for operation in self.unacknowledged}
        self.forget(error, failed, now_ms, effects, state)
        assert self.is_blank, f"partition {self.partition} is given up and keeps something"
        self.unacknowledged.clear()
        self.holds = False
        self.state = state


def send_response(to: Any, response: Any, effects: Effects[Any]) -> None:
    """Send a delayed response, or put it into its place in a response about several groups.

    Args:
        to: its address, or its place; None to send nothing.
        response: the response, or the part of it.
        effects: receives what is to be sent.
    """
    if type(to) is ResponsePart:
        to.deliver(response, effects)
    elif to is not None:
        effects.reply(to, response)
