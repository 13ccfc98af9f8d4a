"""A share partition: start and end offset, records in flight, locks.

The leader of a topic partition has one for each share group that reads it. It is data without a
clock: the time is an argument, and what is to be persisted is returned. Acquiring is in
`acquisition`, acknowledging in `acknowledgement`.

A change by a member is a `Transition`: the new state is seen at once, so that nobody else gets the
records, and is complete when it has been persisted; if it could not be, it is undone. The end of a
lock is not undone [share-partitions/locks].

Invariants:

* the start offset never moves back;
* each record below it is done, and the record at it is not, unless none is in flight;
* the records in flight are between start and end offset, both included; without any both are equal,
  and are the next offset to read;
* an unread range was skipped by what was restored: it is read again [share-partitions/restored].
"""

from coterie.coordinator.kernel.timer_wheel import TimingWheel
from coterie.coordinator.share_partition.in_flight import (
    InFlightBatch,
    InFlightBatches,
    InFlightState,
    StateWrite,
    Transition,
)
from coterie.coordinator.share_partition.states import (
    ACQUIRED,
    ARCHIVED,
    AVAILABLE,
    FINAL_STATES,
    RecordState,
    StateBatch,
    join_neighbours,
    released_state,
)

# Records, and the member that had them.
MemberRecords = tuple[str, StateBatch]


class SharePartition:
    """The records of one topic partition that one share group is processing.

    Attributes:
        start_offset: the first record that is not done.
        end_offset: the last record that was ever acquired; `start_offset` without any in flight.
        batches: the records in flight.
        unread: ranges between restored batches that are still to be read.
        delivery_complete_count: how many records in flight are final, or are being written as such.
        locks: the deadlines of locks by first offset. Records in one state have one lock.
    """

    def __init__(
        self, start_offset: int, now_ms: int, restored: list[StateBatch] | None = None
    ) -> None:
        """Start at an offset, with what was persisted.

        Args:
            start_offset: the first record that is not done.
            now_ms: the time.
            restored: states of records from there on; they do not overlap.
        """
        assert start_offset >= 0, f"{start_offset} is no offset"
        self.start_offset = start_offset
        self.end_offset = start_offset
        self.batches = InFlightBatches()
        self.unread: list[tuple[int, int]] = []
        self.delivery_complete_count = 0
        self.locks: TimingWheel[int] = TimingWheel(now_ms)
        self._restore(sorted(restored or ()))

    def _restore(self, restored: list[StateBatch]) -> None:
        next_offset = self.start_offset
        for batch in restored:
            if batch.last_offset < next_offset:
                continue
            first_offset = max(batch.first_offset, next_offset)
            if first_offset > next_offset:
                self.unread.append((next_offset, first_offset - 1))
            state = InFlightState(
                first_offset, batch.last_offset, batch.state, batch.delivery_count
            )
            assert batch.state is not ACQUIRED, f"{batch} is persisted"
            self.batches.add(InFlightBatch(state))
            self.count_final(state, 1)
            next_offset = batch.last_offset + 1
            self.end_offset = batch.last_offset
        self.advance()

    # -- what is asked of it -----------------------------------------------------------------------

    @property
    def in_flight_records(self) -> int:
        """How many offsets are in flight."""
        return self.end_offset - self.start_offset + 1 if self.batches else 0

    def next_fetch_offset(self) -> int:
        """Return the offset from which the log is read next [share-partitions/fetch-offset].

        It is the first record that can be acquired again, or that was not read yet.
        """
        unread = self.unread[0][0] if self.unread else None
        for batch in self.batches:
            if unread is not None and unread < batch.first_offset:
                return unread
            for state in batch.states:
                # As `can_be_acquired`, without a call for each.
                if state.state is AVAILABLE and state.writing is None:
                    return state.first_offset
        return self.end_offset + 1 if self.batches else self.end_offset

    def last_wanted(self, offset: int, max_records: int) -> int:
        """Return an offset behind which a fetch acquires nothing but the rest of a batch.

        Args:
            offset: the offset from which the log is read.
            max_records: how many records the fetch wants.
        """
        left = max_records
        for batch in self.batches.within(offset, self.end_offset):
            for state in batch.states_within(offset, self.end_offset):
                if state.can_be_acquired:
                    left -= state.last_offset - max(state.first_offset, offset) + 1
                    if left <= 0:
                        return batch.last_offset
        return max(self.end_offset, offset - 1) + left

    def can_acquire(self, max_in_flight: int) -> bool:
        """Return whether a fetch could acquire something, if the log has it."""
        if self.in_flight_records < max_in_flight:
            return True
        return self.next_fetch_offset() <= self.end_offset

    def next_deadline_ms(self) -> int | None:
        """Return when to call `expire_locks` next; None while nothing is acquired."""
        return self.locks.next_ms()

    # -- transitions -------------------------------------------------------------------------------

    def enter(self, transition: Transition, state: InFlightState, new: RecordState) -> StateBatch:
        """Enter a state as a part of a transition; return what is to be persisted."""
        assert state.state is ACQUIRED, f"{state} is not acquired"
        assert state.writing is None, f"{state} is being written"
        assert state.first_offset >= self.start_offset, f"{state} is done"
        state.enter(new)
        state.writing = transition
        transition.ranges.append((state.first_offset, state.last_offset))
        self.count_final(state, 1)
        return state.batch()

    def let_go(
        self, transition: Transition, state: InFlightState, delivery_limit: int
    ) -> StateBatch:
        """Release records as a part of a transition; return what is to be persisted."""
        batch = self.enter(transition, state, released_state(state.delivery_count, delivery_limit))
        if batch.state is not AVAILABLE:
            transition.given_up.append(batch)
        return batch

    def to_write(self, batches: list[StateBatch]) -> StateWrite | None:
        """Return what is to be persisted of batches; None without any."""
        if not batches:
            return None
        return StateWrite(self.start_offset, self.delivery_complete_count, join_neighbours(batches))

    def complete(self, transition: Transition) -> None:
        """Note that a transition is persisted, and move the start offset over what is done."""
        for state in self._states_of(transition):
            state.writing, state.lock_expired = None, False
            self.locks.cancel(state.first_offset)
        for first_offset, last_offset in transition.ranges:
            for batch in self.batches.within(first_offset, last_offset):
                if batch.is_split:
                    batch.join(first_offset, last_offset)
        self.advance()

    def undo(self, transition: Transition, delivery_limit: int) -> None:
        """Undo a transition that was not persisted, or was refused in the middle.

        Records whose lock has expired meanwhile are as after that.
        """
        has_expired = False
        for state in self._states_of(transition):
            self.count_final(state, -1)
            state.writing = None
            if state.lock_expired:
                has_expired = True
                state.lock_expired = False
                state.enter(released_state(state.delivery_count, delivery_limit))
                self.count_final(state, 1)
            else:
                state.state = ACQUIRED
                state.member_id = transition.member_id
        if has_expired:
            self.advance()

    def _states_of(self, transition: Transition) -> list[InFlightState]:
        """Return the states that a transition has entered and that nothing has changed since."""
        return [
            state
            for first_offset, last_offset in transition.ranges
            for batch in self.batches.within(first_offset, last_offset)
            for state in batch.states_within(first_offset, last_offset)
            if state.writing is transition
        ]

    def release(self, member_id: str, delivery_limit: int) -> Transition:
        """Release everything that a member has acquired: its session has ended.

        The delivery counts [share-partitions/locks].
        """
        transition = Transition(member_id)
        released = [
            self.let_go(transition, state, delivery_limit)
            for batch in self.batches
            for state in batch.states
            if state.state is ACQUIRED and state.member_id == member_id
        ]
        transition.write = self.to_write(released)
        return transition

    # -- locks -------------------------------------------------------------------------------------

    def lock(self, state: InFlightState, deadline_ms: int) -> None:
        """Lock acquired records, or renew their lock."""
        assert state.state is ACQUIRED, f"{state} is not acquired"
        self.locks.arm(state.first_offset, deadline_ms)

    def split(
        self, batch: InFlightBatch, first_offset: int, last_offset: int
    ) -> list[InFlightState]:
        """Let each record of a batch have its own state; return those of a range.

        Those that the range begins or ends within are cut there, each part with its own lock of the
        same deadline.
        """
        batch.is_split = True
        for offset in (first_offset, last_offset + 1):
            parts = batch.cut(offset)
            if parts is not None:
                deadline_ms = self.locks.deadline_ms(parts[0].first_offset)
                if deadline_ms is not None:
                    self.locks.arm(offset, deadline_ms)
        return batch.states_within(first_offset, last_offset)

    def expire_locks(
        self, now_ms: int, delivery_limit: int, failed: list[MemberRecords] | None = None
    ) -> StateWrite | None:
        """Release the records whose locks have expired [share-partitions/locks].

        Args:
            now_ms: the time.
            delivery_limit: how often a record is delivered at most.
            failed: gets the records and who had them.

        Returns:
            What is to be persisted. The records are released whether that succeeds or not.
        """
        released = []
        for _, offset in self.locks.advance(now_ms):
            state = self.batches.state_at(offset)
            assert state is not None, f"{offset} is locked and not in flight"
            if state.writing is not None:
                state.lock_expired = True
                continue
            assert state.state is ACQUIRED, f"{state} is locked"
            member_id = state.member_id
            state.enter(released_state(state.delivery_count, delivery_limit))
            self.count_final(state, 1)
            released.append(state.batch())
            if failed is not None:
                failed.append((member_id, state.batch()))
        write = self.to_write(released)
        if write is not None:
            self.advance()
        return write

    # -- the ends ----------------------------------------------------------------------------------

    def count_final(self, state: InFlightState, sign: int) -> None:
        """Count the records of a state that is final now, or, with -1, is not any more."""
        if state.state in FINAL_STATES:
            first_offset = max(state.first_offset, self.start_offset)
            self.delivery_complete_count += sign * max(0, state.last_offset - first_offset + 1)

    def advance(self) -> None:
        """Move the start offset over the records at the front that are done."""
        done_before = self._first_not_done()
        if done_before is None:
            # Nothing in flight is left.
            self._begin_at(self.end_offset + 1 if self.batches else self.end_offset)
        elif done_before > self.start_offset:
            self._move_start(done_before)

    def _first_not_done(self) -> int | None:
        """Return the first record that is not done; None if none is in flight or unread."""
        unread = self.unread[0][0] if self.unread else None
        for batch in self.batches:
            if unread is not None and unread < batch.first_offset:
                return unread
            if batch.last_offset < self.start_offset:
                continue
            for state in batch.states_within(self.start_offset, batch.last_offset):
                if not state.is_final:
                    return max(state.first_offset, self.start_offset)
        assert unread is None, "a range behind all batches was never skipped"
        return None

    def _move_start(self, offset: int) -> None:
        """Move the start offset to a record in flight, and forget the batches below it."""
        for batch in self.batches.within(self.start_offset, offset - 1):
            for state in batch.states_within(self.start_offset, offset - 1):
                if state.state in FINAL_STATES:
                    first_offset = max(state.first_offset, self.start_offset)
                    last_offset = min(state.last_offset, offset - 1)
                    self.delivery_complete_count -= last_offset - first_offset + 1
        self.start_offset = offset
        done = 0
        for batch in self.batches:
            if batch.last_offset >= offset:
                break
            done += 1
        self.batches.remove_front(done)

    def _begin_at(self, offset: int) -> None:
        """Go on at an offset with nothing in flight."""
        assert offset >= self.start_offset, "the start offset never moves back"
        self.batches = InFlightBatches()
        self.unread = []
        self.start_offset = self.end_offset = offset
        self.delivery_complete_count = 0

    def move_log_start(self, log_start_offset: int) -> None:
        """Forget what is gone from the front of the log [share-partitions/log-start].

        Records behind it that are done already count with the next write, as in Kafka.
        """
        if log_start_offset <= self.start_offset:
            return
        if not self.batches or log_start_offset > self.end_offset:
            for batch in self.batches:
                self._forget(batch, batch.last_offset)
            self._begin_at(log_start_offset)
            return
        for batch in self.batches.within(self.start_offset, log_start_offset - 1):
            if batch.last_offset >= log_start_offset:
                self.split(batch, batch.first_offset, log_start_offset - 1)
            self._forget(batch, log_start_offset - 1)
        self.read_to(log_start_offset - 1)
        self._move_start(log_start_offset)

    def _forget(self, batch: InFlightBatch, last_offset: int) -> None:
        """Archive the records of a batch up to an offset, whether they are acquired or not."""
        for state in batch.states_within(batch.first_offset, last_offset):
            self.archive(state)

    def archive(self, state: InFlightState) -> None:
        """Archive records that nobody can read any more, in memory only."""
        self.locks.cancel(state.first_offset)
        if state.state not in FINAL_STATES:
            state.enter(ARCHIVED)
            self.count_final(state, 1)
        state.writing, state.lock_expired = None, False

    def read_to(self, last_offset: int) -> None:
        """Note that unread ranges are read up to an offset."""
        self.unread = [
            (max(first, last_offset + 1), last) for first, last in self.unread if last > last_offset
        ]
