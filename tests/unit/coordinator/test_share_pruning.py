"""What of the share coordinator's log is not needed any more [share-partitions/state-pruning]."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.coordinator.kernel.request import ClientContext, RequestContext
from coterie.coordinator.share_partition.states import AVAILABLE, StateBatch
from coterie.coordinator.share_state.config import ShareStateConfig
from coterie.coordinator.share_state.pruning import (
    COLD_STATES_AT_ONCE,
    Kind,
    Prune,
    Pruning,
    Written,
)
from coterie.coordinator.share_state.requests import Delete, Initialize, ShareKey, Write
from coterie.coordinator.share_state.share_state import ShareState
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.share_state_records import ShareSnapshotKey
from tests.unit.coordinator.test_share_state import NOW_MS, TOPIC, Coordinated

A, B, C = (ShareKey("grp", TOPIC, each) for each in range(3))
CONFIG = ShareStateConfig(cold_interval_ms=1_000, prune_interval_ms=400)
INTERVAL_MS = 300_000


def advanced(coordinated: Coordinated, now_ms: int) -> list[Prune]:
    """Let it be a time, with everything durable that is written then; return what is pruned."""
    effects = coordinated.coordinator.advance(now_ms)
    for append in effects.appends:
        coordinated.pairs += coordinated.coordinator.encode(append.records)
    coordinated.coordinator.appended([(0, len(effects.appends))], now_ms)
    return list(effects.requests)


def noted(records: str) -> Pruning:
    """Return what is known after records such as "A+ A b-": snapshot, update and tombstone.

    Small letters were there at the load.
    """
    pruning = Pruning(CONFIG, [B] if "b" in records else [])
    kinds = {"+": Kind.SNAPSHOT, "": Kind.UPDATE, "-": Kind.TOMBSTONE}
    keys = {"A": A, "B": B, "C": C, "b": B}
    for each in records.split():
        pruning.note(Written(keys[each[0]], kinds[each[1:]]), NOW_MS)
    return pruning


@pytest.mark.parametrize(
    ("records", "position"),
    [
        ("", -1),
        ("A+", 0),
        ("A+ A A", 0),
        ("A+ A A+", 2),
        ("A+ B+ A+", 1),
        ("A+ B+ A+ B+", 2),
        ("A+ B+ A-", 1),
        ("A+ B+ A- A+", 1),
        # Nothing is left, but an empty log has no epochs.
        ("A+ A A-", 2),
        # What was there before is needed until it is replaced.
        ("b A+ A+", -1),
        ("b A+ b+", 1),
        ("A+ b-", 0),
    ],
)
def test_oldest_of_the_latest_snapshots_is_the_first_needed(records: str, position: int) -> None:
    """[share-partitions/state-pruning]"""
    assert noted(records).position == position


def test_times_are_set_by_records_only() -> None:
    """A partition without new records is left alone, also after its cold snapshots."""
    pruning = Pruning(CONFIG)
    state = ShareState(0, 1, 0, NOW_MS)
    assert pruning.next_ms() is None
    assert pruning.note(Written(A, Kind.SNAPSHOT), NOW_MS)
    assert not pruning.note(Written(A, Kind.UPDATE), NOW_MS + 100)
    assert pruning.next_ms() == NOW_MS + 400
    assert not pruning.take_prune(NOW_MS + 399)
    assert pruning.take_prune(NOW_MS + 400)
    assert pruning.next_ms() == NOW_MS + 1_000
    assert pruning.take_cold({A: state}, NOW_MS + 999) == []
    # `B` has got one meanwhile.
    states = {A: state, B: ShareState(0, 1, 0, NOW_MS + 1)}
    assert pruning.take_cold(states, NOW_MS + 1_000) == [A]
    assert pruning.next_ms() is None
    assert pruning.note(Written(A, Kind.COLD_SNAPSHOT), NOW_MS + 1_000)
    assert pruning.next_ms() == NOW_MS + 1_400
    assert pruning.take_prune(NOW_MS + 1_400)
    assert pruning.next_ms() is None


def test_many_cold_snapshots_are_made_in_several_turns() -> None:
    """A turn has a limit; a share partition that is deleted between two turns gets none."""
    pruning = noted("A+ B+ C+")
    states = {each: ShareState(0, 1, 0, NOW_MS) for each in (A, B, C)}
    states[A].batches = [StateBatch(0, 0, AVAILABLE, 1)] * COLD_STATES_AT_ONCE
    assert pruning.take_cold(states, NOW_MS + 1_000) == [A]
    assert pruning.cold_ms == NOW_MS + 1_000
    del states[B]
    assert pruning.take_cold(states, NOW_MS + 1_000) == [C]
    assert pruning.cold_ms is None


def test_a_cold_share_partition_gets_a_snapshot() -> None:
    """It holds what the log has; afterwards nothing before it is needed."""
    coordinated = Coordinated()
    for key in (A, B):
        coordinated.ask(Initialize(key, 2, 5))
    coordinated.ask(Write(A, 2, 7, 5, 0, [StateBatch(5, 9, AVAILABLE, 1)]))
    before = coordinated.states()
    assert coordinated.coordinator.next_deadline_ms() == NOW_MS + INTERVAL_MS
    assert advanced(coordinated, NOW_MS + INTERVAL_MS) == [Prune(0, 0)]
    keys = [ShareSnapshotKey.of(*each) for each in (A, B)]
    written = [key for key, _ in coordinated.coordinator.encode([(key, None) for key in keys])]
    assert [key for key, _ in coordinated.pairs[3:]] == written
    after = coordinated.states()
    for key, fields in before.items():
        fields[4] += 1
        assert after[key] == fields
    assert advanced(coordinated, NOW_MS + 2 * INTERVAL_MS) == [Prune(0, 3)]
    assert Coordinated(pairs=coordinated.pairs[3:]).states() == after
    assert coordinated.coordinator.next_deadline_ms() is None


def test_only_durable_records_make_others_superfluous() -> None:
    """What is not on the disk replaces nothing, and a failed append leaves no positions."""
    coordinated = Coordinated()
    coordinated.ask(Initialize(A, 2, 5))
    coordinator = coordinated.coordinator
    context = RequestContext(ClientContext(), 0, "to")
    assert coordinator.handle(NOW_MS, Initialize(A, 3, 5), context).appends
    pruning = coordinator.shards[0].pruning
    assert pruning.position == 0
    coordinator.appended([(0, 1)], NOW_MS)
    assert pruning.position == 1
    coordinator.handle(NOW_MS, Delete(A), context)
    assert pruning.position == 1
    coordinator.append_failed(0, ErrorCode.NOT_COORDINATOR, NOW_MS)
    assert coordinator.next_deadline_ms() is None
    assert coordinator.shards[0].pruning.position == -1


_keys = st.sampled_from([A, B])
_steps = st.one_of(
    st.builds(Initialize, _keys, st.just(3), st.integers(-1, 5)),
    st.builds(lambda key, start, first: Write(key, 3, 0, start, 0,
                                              [StateBatch(first, first + 3, AVAILABLE, 1)]),
              _keys, st.integers(-1, 9), st.integers(0, 9)),
    st.builds(Delete, _keys),
    st.just(None),
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.lists(_steps, max_size=25), st.integers(1, 4))
def test_what_is_pruned_is_not_missed(steps: list[Any], updates_per_snapshot: int) -> None:
    """A load of what is left finds every state, whatever was written and when it was pruned."""
    coordinated = Coordinated(updates_per_snapshot)
    now_ms = NOW_MS
    for step in steps:
        if step is not None:
            coordinated.ask(step, now_ms)
            continue
        now_ms += 2 * INTERVAL_MS
        for prune in advanced(coordinated, now_ms):
            kept = Coordinated(pairs=coordinated.pairs[prune.position :])
            assert kept.states() == coordinated.states()
    position = coordinated.coordinator.shards[0].pruning.position
    kept = Coordinated(pairs=coordinated.pairs[max(0, position) :])
    assert kept.states() == coordinated.states()
