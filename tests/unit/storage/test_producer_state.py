"""Sequences, epochs and transactions of producers, in memory.

Rules: [data-plane/duplicate-batch], [data-plane/sequence-numbers],
[data-plane/producer-expiration], [data-plane/markers].
"""

import random

import pytest

from coterie.protocol.errors import ErrorCode
from coterie.protocol.record_batch_layout import TRANSACTIONAL
from coterie.storage import producer_state
from coterie.storage.producer_state import CompletedTransaction, ProducerState
from tests.unit.storage.produced_batches import DAY_MS, NOW_MS, append, header

OUT_OF_ORDER = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, None)
ACCEPTED = (ErrorCode.NONE, None)


def with_batches(*batches: tuple[int, int]) -> ProducerState:
    """Return the state after batches (base sequence, records) from offset 100 on."""
    state, offset = ProducerState(), 100
    for sequence, records in batches:
        append(state, header(sequence=sequence, records=records, base_offset=offset), NOW_MS)
        offset += records
    return state


def stored_offset(state: ProducerState, sequence: int, records: int = 1) -> int:
    """Return the offset with which a retry is answered."""
    error, stored = state.check(header(sequence=sequence, records=records))
    assert error is ErrorCode.NONE
    assert stored is not None
    return stored.base_offset


class TestSequences:
    def test_first_batch_of_an_unknown_producer_may_have_any_sequence(self) -> None:
        assert ProducerState().check(header(sequence=42)) == ACCEPTED

    def test_next_sequence_is_accepted(self) -> None:
        assert with_batches((0, 3)).check(header(sequence=3)) == ACCEPTED

    @pytest.mark.parametrize("sequence", [1, 2, 4])
    def test_gap_or_overlap_is_out_of_order(self, sequence: int) -> None:
        assert with_batches((0, 3)).check(header(sequence=sequence)) == OUT_OF_ORDER

    def test_sequence_wraps_to_zero(self) -> None:
        assert with_batches((2**31 - 2, 2)).check(header(sequence=0)) == ACCEPTED

    def test_batch_that_wraps_is_recognized_when_retried(self) -> None:
        state = with_batches((2**31 - 1, 3), (2, 1))
        assert stored_offset(state, 2**31 - 1, 3) == 100
        assert stored_offset(state, 2) == 103

    @pytest.mark.parametrize("number", range(5))
    def test_retry_of_one_of_the_last_five_batches_is_recognized(self, number: int) -> None:
        state = with_batches(*[(each, 1) for each in range(6)])
        assert stored_offset(state, 1 + number) == 101 + number

    def test_retry_is_answered_with_the_timestamp_of_the_stored_batch(self) -> None:
        state = ProducerState()
        for sequence in range(2):
            append(state, header(sequence=sequence, timestamp_ms=NOW_MS + sequence), NOW_MS)
        for sequence in range(2):
            _, stored = state.check(header(sequence=sequence, timestamp_ms=NOW_MS + 99))
            assert stored is not None
            assert stored.timestamp_ms == NOW_MS + sequence

    def test_retry_of_the_sixth_last_batch_is_out_of_order(self) -> None:
        state = with_batches(*[(each, 1) for each in range(6)])
        assert state.check(header(sequence=0)) == OUT_OF_ORDER

    @pytest.mark.parametrize("newer", [0, 3])
    def test_same_first_sequence_with_another_count_is_out_of_order(self, newer: int) -> None:
        state = with_batches((0, 3), *[(3 + each, 1) for each in range(newer)])
        assert state.check(header(sequence=0, records=2)) == OUT_OF_ORDER

    def test_lower_epoch_is_refused(self) -> None:
        state = ProducerState()
        append(state, header(epoch=2), NOW_MS)
        assert state.check(header(epoch=1, sequence=1)) == (ErrorCode.INVALID_PRODUCER_EPOCH, None)

    def test_higher_epoch_begins_at_zero(self) -> None:
        state = with_batches((0, 3))
        assert state.check(header(epoch=1, sequence=0)) == ACCEPTED
        assert state.check(header(epoch=1, sequence=3)) == OUT_OF_ORDER

    def test_higher_epoch_forgets_the_batches_of_the_lower_one(self) -> None:
        state = with_batches((0, 1), (1, 1))
        append(state, header(epoch=1, sequence=0, base_offset=102), NOW_MS)
        error, stored = state.check(header(epoch=1, sequence=0))
        assert error is ErrorCode.NONE
        assert stored is not None
        assert stored.base_offset == 102
        assert state.check(header(epoch=1, sequence=5)) == OUT_OF_ORDER

    def test_producer_without_an_epoch_may_go_on_with_any_sequence_in_one(self) -> None:
        # As Kafka 4.3.1 answers, which knows only that there is no epoch yet.
        state = ProducerState()
        assert state.check(header(epoch=-1)) == ACCEPTED
        append(state, header(epoch=-1), NOW_MS)
        assert state.check(header(epoch=-1, sequence=1)) == ACCEPTED
        assert state.check(header(epoch=-1, sequence=5)) == ACCEPTED
        assert state.check(header(epoch=0, sequence=7)) == ACCEPTED

    def test_epoch_below_minus_one_is_refused(self) -> None:
        refused = ProducerState().check(header(epoch=-2))
        assert refused == (ErrorCode.INVALID_PRODUCER_EPOCH, None)

    def test_many_producers_do_not_mix(self) -> None:
        state = ProducerState()
        sequences: dict[int, int] = {}
        chance = random.Random(11)
        for offset in range(3000):
            producer_id = chance.randrange(100)
            if chance.random() < 0.05:
                # The most silent one is forgotten, and the last entry takes its place.
                state.expire(offset, 0, 1)
                sequences = {each: sequences[each] for each in sequences if state.get(each)}
            sequence = sequences.get(producer_id, 0)
            append(
                state,
                header(producer_id=producer_id, sequence=sequence, base_offset=offset),
                offset,
            )
            sequences[producer_id] = sequence + 1
            assert len(state) == len(sequences)
        for entry in state:
            assert entry.last_sequence == sequences[entry.producer_id] - 1
            found = state.get(entry.producer_id)
            assert found == entry


class TestTransactions:
    def test_oldest_open_transaction_is_the_first_unstable_offset(self) -> None:
        state = ProducerState()
        assert state.first_unstable_offset is None
        for offset, producer_id in ((10, 1), (11, 2)):
            append(
                state,
                header(producer_id=producer_id, attributes=TRANSACTIONAL, base_offset=offset),
                NOW_MS,
            )
        assert state.first_unstable_offset == 10
        state.end_transaction(header(producer_id=1, base_offset=12), 0, NOW_MS)
        assert state.first_unstable_offset == 11
        state.end_transaction(header(producer_id=2, base_offset=13), 0, NOW_MS)
        assert state.first_unstable_offset is None

    def test_transaction_goes_on_over_several_batches(self) -> None:
        state = ProducerState()
        append(state, header(attributes=TRANSACTIONAL, base_offset=10), NOW_MS)
        append(state, header(sequence=1, attributes=TRANSACTIONAL, base_offset=20), NOW_MS)
        ended = state.end_transaction(header(base_offset=30), 3, NOW_MS)
        assert ended == CompletedTransaction(7, 10, 30, 31)

    def test_completed_transaction_has_the_next_open_one(self) -> None:
        state = ProducerState()
        for offset, producer_id in ((10, 1), (11, 2)):
            append(
                state,
                header(producer_id=producer_id, attributes=TRANSACTIONAL, base_offset=offset),
                NOW_MS,
            )
        ended = state.end_transaction(header(producer_id=1, base_offset=12), 0, NOW_MS)
        assert ended == CompletedTransaction(1, 10, 12, 11)

    def test_marker_without_data_ends_nothing(self) -> None:
        state = ProducerState()
        assert state.end_transaction(header(epoch=5), 0, NOW_MS) is None
        entry = state.get(7)
        assert entry is not None
        assert (entry.epoch, entry.coordinator_epoch, entry.last_sequence) == (5, 0, -1)

    def test_marker_of_a_higher_epoch_makes_the_next_batch_begin_at_zero(self) -> None:
        state = with_batches((0, 3), (3, 1))
        state.end_transaction(header(epoch=1, base_offset=104), 0, NOW_MS)
        assert state.check(header(epoch=1, sequence=0)) == ACCEPTED
        assert state.check(header(epoch=1, sequence=4)) == OUT_OF_ORDER
        append(state, header(epoch=1, sequence=0, base_offset=105), NOW_MS)
        assert state.check(header(epoch=1, sequence=1)) == ACCEPTED

    def test_marker_of_the_same_epoch_keeps_the_sequence(self) -> None:
        state = with_batches((0, 3), (3, 1))
        state.end_transaction(header(base_offset=104), 0, NOW_MS)
        assert state.check(header(sequence=4)) == ACCEPTED
        assert stored_offset(state, 3) == 103
        assert stored_offset(state, 0, 3) == 100

    def test_plain_batch_in_an_open_transaction_is_refused(self) -> None:
        state = ProducerState()
        append(state, header(attributes=TRANSACTIONAL), NOW_MS)
        assert state.check(header(sequence=1)) == (ErrorCode.INVALID_TXN_STATE, None)
        assert state.check(header(sequence=1, attributes=TRANSACTIONAL)) == ACCEPTED

    def test_markers_of_old_epochs_are_refused(self) -> None:
        state = ProducerState()
        assert state.check_marker(7, 0, 0) is ErrorCode.NONE
        append(state, header(epoch=2, attributes=TRANSACTIONAL), NOW_MS)
        assert state.check_marker(7, 1, 0) is ErrorCode.INVALID_PRODUCER_EPOCH
        state.end_transaction(header(epoch=2, base_offset=1), 5, NOW_MS)
        assert state.check_marker(7, 2, 4) is ErrorCode.TRANSACTION_COORDINATOR_FENCED
        assert state.check_marker(7, 2, 5) is ErrorCode.NONE


class TestExpiration:
    def test_silent_producers_are_forgotten(self) -> None:
        state = ProducerState()
        append(state, header(producer_id=1), NOW_MS - DAY_MS)
        append(state, header(producer_id=2), NOW_MS - DAY_MS + 1)
        assert state.expire(NOW_MS, DAY_MS, 100) == 1
        assert [entry.producer_id for entry in state] == [2]

    def test_time_counts_from_the_append_and_not_from_the_timestamp(self) -> None:
        state = ProducerState()
        append(state, header(timestamp_ms=NOW_MS - 3 * DAY_MS), NOW_MS)
        assert state.expire(NOW_MS + DAY_MS - 1, DAY_MS, 100) == 0
        assert state.expire(NOW_MS + DAY_MS, DAY_MS, 100) == 1

    def test_activity_renews_a_producer(self) -> None:
        state = ProducerState()
        for seen_ms, producer_id in enumerate((1, 2, 1)):
            append(state, header(producer_id=producer_id, sequence=seen_ms), seen_ms)
        assert state.expire(3, 2, 100) == 1
        assert [entry.producer_id for entry in state] == [1]

    def test_producer_with_an_open_transaction_is_not_forgotten(self) -> None:
        state = ProducerState()
        append(state, header(attributes=TRANSACTIONAL), 0)
        assert state.expire(NOW_MS, DAY_MS, 100) == 0

    def test_one_call_forgets_a_bounded_number(self) -> None:
        state = ProducerState()
        for producer_id in range(10):
            append(state, header(producer_id=producer_id), 0)
        assert [state.expire(NOW_MS, DAY_MS, 4) for _ in range(4)] == [4, 4, 2, 0]
        assert (len(state), list(state)) == (0, [])

    def test_most_silent_producer_makes_room(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(producer_state, "MAX_PRODUCERS", 3)
        state = ProducerState()
        append(state, header(producer_id=1, attributes=TRANSACTIONAL), 0)
        for producer_id in (2, 3, 2, 4):
            append(state, header(producer_id=producer_id), 0)
        assert sorted(entry.producer_id for entry in state) == [1, 2, 4]
