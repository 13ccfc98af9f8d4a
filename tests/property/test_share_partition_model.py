"""Random members, locks, writes and restarts of a share partition, against a model of each record.

The model knows for each offset who holds it until when, how often it was delivered and how it
ended. It learns from answers only, and from the settings:

* no record is delivered to a member while another one, or the same, holds a lock of it;
* none is delivered once it is done, and none more often than the delivery limit;
* none is lost: at the end every record of the log is done;
* the start offset never moves back, and what is below it is done;
* what is restored from the writes is what was in memory [share-partitions/restored].
"""

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coterie.coordinator.share_partition.acknowledgement import (
    AcknowledgedBatch,
    Refusal,
    acknowledge,
    shape_error,
)
from coterie.coordinator.share_partition.acquisition import Acquisition, LogBatch, acquire
from coterie.coordinator.share_partition.in_flight import StateWrite, Transition
from coterie.coordinator.share_partition.partition import SharePartition
from coterie.coordinator.share_partition.states import (
    ACQUIRED,
    FINAL_STATES,
    STATE_AFTER,
    AcknowledgeType,
    RecordState,
    StateBatch,
    join_neighbours,
    released_state,
)

MEMBERS = ["a", "b", "c"]
LOCK_MS = 100
Step = tuple[Any, ...]

_members = st.sampled_from(MEMBERS)
_fetches = st.tuples(
    st.just("fetch"), _members, st.integers(1, 12), st.integers(1, 8), st.booleans(),
    st.integers(1, 4),
)  # fmt: skip
_acknowledgements = st.tuples(
    st.just("acknowledge"), _members, st.floats(0, 1), st.floats(0, 1),
    st.lists(st.integers(0, 4), min_size=1, max_size=4), st.sampled_from(["now", "later", "never"]),
)  # fmt: skip
_steps = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 7), st.sampled_from([0, 0, 0, 3])),
    _fetches,
    _fetches,
    _acknowledgements,
    _acknowledgements,
    st.tuples(st.just("written"), st.booleans()),
    st.tuples(st.just("wait"), st.sampled_from([1, 60, LOCK_MS])),
    st.tuples(st.just("release"), _members),
    st.tuples(st.just("delete"), st.floats(0, 1)),
    st.tuples(st.just("restart"), st.booleans()),
)


class Model:
    """A share partition, its log, what was persisted, and what is known of each record."""

    def __init__(self, delivery_limit: int, max_in_flight: int) -> None:
        self.delivery_limit = delivery_limit
        self.max_in_flight = max_in_flight
        self.now_ms = 0
        self.partition = SharePartition(0, 0)
        self.log: list[LogBatch] = []
        self.log_start = 0
        self.log_end = 0
        # For each offset: member and deadline; how often delivered; how it ended.
        self.held: dict[int, tuple[str, int]] = {}
        self.counts: dict[int, int] = {}
        self.done: dict[int, RecordState] = {}
        self.pending: list[tuple[Transition, dict[int, RecordState]]] = []
        self.persisted: dict[int, tuple[RecordState, int]] = {}
        self.persisted_start = 0

    # -- steps -------------------------------------------------------------------------------------

    def step(self, step: Step) -> None:
        getattr(self, step[0])(*step[1:])
        self.check()

    def append(self, records: int, hole: int) -> None:
        base = self.log_end + hole
        self.log.append(LogBatch(base, base + records - 1))
        self.log_end = base + records

    def fetch(self, member: str, most: int, batch_size: int, by_records: bool, read: int) -> int:
        offset = self.partition.next_fetch_offset()
        offset = max(offset, self.log_start)
        self.partition.move_log_start(self.log_start)
        batches = [each for each in self.log if each.last_offset >= offset][:read]
        asked = Acquisition(
            member, most, batch_size, by_records, self.max_in_flight, self.delivery_limit,
            self.now_ms + LOCK_MS,
        )  # fmt: skip
        acquired = acquire(self.partition, asked, offset, batches)
        before = -1
        for entry in acquired:
            assert before < entry.first_offset <= entry.last_offset, acquired
            assert entry.last_offset <= batches[-1].last_offset, "only what was read is acquired"
            before = entry.last_offset
            for record in range(entry.first_offset, entry.last_offset + 1):
                self.delivered(record, member, entry.delivery_count)
        records = sum(each.last_offset - each.first_offset + 1 for each in acquired)
        assert not by_records or records <= most, "the limit is exact"
        return records

    def delivered(self, record: int, member: str, count: int) -> None:
        assert record >= self.log_start
        assert record not in self.held, f"{record} is held by {self.held[record]}"
        assert record not in self.done, f"{record} is {self.done[record]}"
        assert not any(record in states for _, states in self.pending), f"{record} is being written"
        self.counts[record] = self.counts.get(record, 0) + 1
        assert self.counts[record] == count <= self.delivery_limit
        self.held[record] = (member, self.now_ms + LOCK_MS)

    def acknowledge(
        self, member: str, begin: float, part: float, types: list[int], when: str
    ) -> None:
        """Acknowledge a range that begins at something that the member holds, or nearly."""
        mine = sorted(record for record, (holder, _) in self.held.items() if holder == member)
        first = mine[int(begin * (len(mine) - 1))] if mine else int(begin * (self.log_end + 2))
        last = first + int(part * 8)
        if len(types) > 1:
            types = [types[each % len(types)] for each in range(last - first + 1)]
        batch = AcknowledgedBatch(first, last, types)
        assert not shape_error([batch], may_renew=True)
        start = self.partition.start_offset
        before = self.picture()
        deadline_ms = self.now_ms + LOCK_MS
        result = acknowledge(self.partition, member, [batch], self.delivery_limit, deadline_ms)
        records = [each for each in range(max(first, start), last + 1) if self.is_in_flight(each)]
        writing = {record for _, states in self.pending for record in states}
        owned = all(self.held.get(each, ("",))[0] == member for each in records)
        owned = owned and not writing.intersection(records)
        if isinstance(result, Refusal):
            assert result.error
            assert result.message
            assert self.picture() == before, "nothing was changed"
            assert not owned or last > self.partition.end_offset or not records
            self.renew_undone(records, member, first, types)
            return
        assert owned, f"{records} are not all held by {member}"
        states: dict[int, RecordState] = {}
        for record in records:
            kind = AcknowledgeType(types[record - first if len(types) > 1 else 0])
            if kind is AcknowledgeType.RENEW:
                self.held[record] = (member, deadline_ms)
                continue
            state = STATE_AFTER[kind]
            if state is RecordState.AVAILABLE:
                state = released_state(self.counts[record], self.delivery_limit)
            states[record] = state
        self.begin(result, states, when)

    def renew_undone(self, records: list[int], member: str, first: int, types: list[int]) -> None:
        """Take over the deadlines of renewals in a refused request: they are not undone."""
        for record in records:
            deadline_ms = self.lock_of(record)
            if deadline_ms is not None and self.held.get(record, ("",))[0] == member:
                kind = types[record - first if len(types) > 1 else 0]
                assert deadline_ms == self.held[record][1] or kind == AcknowledgeType.RENEW
                self.held[record] = (member, deadline_ms)

    def lock_of(self, record: int) -> int | None:
        state = self.partition.batches.state_at(record)
        assert state is not None
        return self.partition.locks.deadline_ms(state.first_offset)

    def begin(self, transition: Transition, states: dict[int, RecordState], when: str) -> None:
        covered = {record for first, last in transition.ranges for record in range(first, last + 1)}
        assert covered == set(states)
        assert (transition.write is None) == (not states)
        self.pending.append((transition, states))
        if when == "now":
            self.written(True, -1)
        elif when == "never":
            self.written(False, -1)

    def written(self, succeeds: bool, index: int = 0) -> None:
        if not self.pending:
            return
        transition, states = self.pending.pop(index)
        if not succeeds:
            self.partition.undo(transition, self.delivery_limit)
            for record in states:
                if record in self.held and self.held[record][1] <= self.now_ms:
                    self.ended_without_decision(record)
            return
        self.persist(transition.write)
        self.partition.complete(transition)
        for record, state in states.items():
            self.held.pop(record, None)
            if state in FINAL_STATES:
                self.done[record] = state

    def persist(self, write: StateWrite | None) -> None:
        if write is None:
            return
        # Writes may arrive in another order than that of their starts.
        self.persisted_start = max(self.persisted_start, write.start_offset)
        for batch in write.batches:
            assert batch.state is not ACQUIRED
            for record in range(batch.first_offset, batch.last_offset + 1):
                self.persisted[record] = (batch.state, batch.delivery_count)

    def wait(self, passed_ms: int) -> None:
        self.now_ms += passed_ms
        deadline_ms = self.partition.next_deadline_ms()
        writing = {record for _, states in self.pending for record in states}
        for record, (_, held_ms) in list(self.held.items()):
            assert record in writing or deadline_ms is None or deadline_ms <= held_ms
            if held_ms <= self.now_ms and record not in writing:
                self.ended_without_decision(record)
        self.persist(self.partition.expire_locks(self.now_ms, self.delivery_limit))

    def ended_without_decision(self, record: int) -> None:
        del self.held[record]
        state = released_state(self.counts[record], self.delivery_limit)
        if state in FINAL_STATES:
            self.done[record] = state

    def release(self, member: str) -> None:
        writing = {record for _, states in self.pending for record in states}
        states = {
            record: released_state(self.counts[record], self.delivery_limit)
            for record, (holder, _) in self.held.items()
            if holder == member and record not in writing
        }
        self.begin(self.partition.release(member, self.delivery_limit), states, "now")

    def delete(self, part: float) -> None:
        """Delete records from the front of the log; it is noticed by the next fetch."""
        offset = self.log_start + int(part * (self.log_end - self.log_start))
        self.log_start = offset
        self.partition.move_log_start(offset)
        for record in [each for each in self.held if each < offset]:
            del self.held[record]
        for transition, states in self.pending:
            for record in [each for each in states if each < offset]:
                del states[record]
            transition.ranges = [
                (max(first, offset), last) for first, last in transition.ranges if last >= offset
            ]

    def restart(self, orderly: bool) -> None:
        """Restore the partition from what was persisted."""
        if orderly:
            while self.pending:
                self.written(True)
            for member in MEMBERS:
                self.release(member)
        before = self.picture()
        self.pending.clear()
        self.held.clear()
        persisted = join_neighbours(
            [
                StateBatch(record, record, state, count)
                for record, (state, count) in self.persisted.items()
            ]
        )
        start = self.partition.start_offset
        self.partition = SharePartition(self.persisted_start, self.now_ms, persisted)
        self.partition.move_log_start(self.log_start)
        if orderly:
            known = {each: what for each, what in before.items() if each in self.persisted}
            assert {each: what for each, what in self.picture().items() if each in known} == known
            assert self.partition.start_offset <= start
        # What was never written is not known any more.
        self.counts = {each: count for each, (_, count) in self.persisted.items()}
        self.done = {
            each: state for each, (state, _) in self.persisted.items() if state in FINAL_STATES
        }
        self.last_start = self.partition.start_offset

    # -- invariants --------------------------------------------------------------------------------

    last_start = 0

    def is_in_flight(self, record: int) -> bool:
        return self.partition.batches.state_at(record) is not None

    def picture(self) -> dict[int, tuple[RecordState, int, str]]:
        """Return what the partition says about each record in flight."""
        found = {}
        for batch in self.partition.batches:
            for state in batch.states:
                for record in range(state.first_offset, state.last_offset + 1):
                    if record >= self.partition.start_offset:
                        found[record] = (state.state, state.delivery_count, state.member_id)
        return found

    def check(self) -> None:
        partition = self.partition
        assert partition.start_offset >= self.last_start, "the start offset never moves back"
        self.last_start = partition.start_offset
        for record in self.held:
            assert record >= partition.start_offset, f"{record} is held and done"
        picture = self.picture()
        final = sum(state in FINAL_STATES for state, _, _ in picture.values())
        assert partition.delivery_complete_count == final
        writing = {record for _, states in self.pending for record in states}
        held = {each: holder for each, (_, _, holder) in picture.items() if holder}
        assert held == {
            each: holder for each, (holder, _) in self.held.items() if each not in writing
        }
        if partition.batches:
            assert partition.end_offset == partition.batches.last.last_offset
            assert picture or partition.unread
        else:
            assert partition.start_offset == partition.end_offset
            assert len(partition.locks) == 0
        assert partition.in_flight_records >= len(picture)

    def drain(self) -> None:
        """Process what is left, and find nothing lost."""
        while self.pending:
            self.written(True)
        for member in MEMBERS:
            self.release(member)
        self.check()
        rounds = 0
        while self.fetch("a", 5, 5, False, 3):
            for record in sorted(self.held):
                self.acknowledge("a", 0.0, 0.0, [AcknowledgeType.ACCEPT], "now")
                assert record in self.done
            self.check()
            rounds += 1
            assert rounds < 1000, "each fetch makes progress"
        assert self.partition.next_fetch_offset() >= self.log_end, "everything was read"
        for batch in self.log:
            for record in range(max(batch.base_offset, self.log_start), batch.last_offset + 1):
                assert record in self.done, f"{record} is lost"


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(_steps, min_size=20, max_size=50),
    st.integers(1, 6),
    st.sampled_from([5, 20, 1000]),
)
def test_every_record_is_done_once(
    steps: list[Step], delivery_limit: int, max_in_flight: int
) -> None:
    """No record is held twice, delivered too often, or lost."""
    model = Model(delivery_limit, max_in_flight)
    for records in (3, 1, 5):
        model.append(records, 0)
    for step in steps:
        model.step(step)
    model.drain()
