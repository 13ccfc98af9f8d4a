"""The timing wheel: order, overflow between levels, turns of a level, jumps, the far future.

Scenarios S144, S149 and S154 of tests/transcripts/scenarios.tsv. Random sequences are in
tests/property/test_timer_wheel.py.
"""

import pytest

from coterie.coordinator.kernel.timer_wheel import SLOTS, TimingWheel

START_MS = 1_700_000_000_123
YEAR_MS = 365 * 24 * 3_600_000


def drain(wheel: "TimingWheel[int]") -> list[tuple[int, int]]:
    """Advance from slot to slot until no key is armed; return when each key fired."""
    fired = []
    while (next_ms := wheel.next_ms()) is not None:
        fired += [(next_ms, key) for _, key in wheel.advance(next_ms)]
    return fired


def test_deadline_that_has_passed_is_due_at_once() -> None:
    wheel: TimingWheel[str] = TimingWheel(START_MS)
    wheel.arm("past", START_MS - 5)
    wheel.arm("now", START_MS)
    wheel.arm("soon", START_MS + 1)
    assert wheel.advance(START_MS) == [(START_MS - 5, "past"), (START_MS, "now")]
    assert wheel.advance(START_MS) == []
    assert wheel.advance(START_MS + 1) == [(START_MS + 1, "soon")]


def test_deadlines_on_every_level_fire_in_order_and_on_time() -> None:
    wheel: TimingWheel[int] = TimingWheel(START_MS)
    delays = [1, 19, 20, 21, 399, 400, 401, 7_999, 8_000, 160_001, 3_200_000, 90_000_000]
    for delay_ms in reversed(delays):
        wheel.arm(delay_ms, START_MS + delay_ms)
    assert drain(wheel) == [(START_MS + delay_ms, delay_ms) for delay_ms in delays]


@pytest.mark.parametrize("level", range(1, 9))
def test_deadlines_at_the_end_of_a_level_fire_on_time(level: int) -> None:
    end_ms = SLOTS**level
    delays = [end_ms - 1, end_ms, end_ms + 1, 2 * end_ms - 1]
    wheel: TimingWheel[int] = TimingWheel(START_MS)
    for delay_ms in delays:
        wheel.arm(delay_ms, START_MS + delay_ms)
    assert drain(wheel) == [(START_MS + delay_ms, delay_ms) for delay_ms in delays]


def test_wheel_may_start_in_the_middle_of_its_slots() -> None:
    for start_ms in (*range(25), 399, 7_999, START_MS):
        wheel: TimingWheel[int] = TimingWheel(start_ms)
        for delay_ms in (0, 1, 19, 20, 381, 7_602):
            wheel.arm(delay_ms, start_ms + delay_ms)
        assert drain(wheel) == [(start_ms + d, d) for d in (0, 1, 19, 20, 381, 7_602)]


def test_equal_deadlines_fire_in_the_order_of_arming() -> None:
    """Also if only one of them was armed on a coarse level."""
    wheel: TimingWheel[str] = TimingWheel(0)
    wheel.arm("armed on a coarse level", 500)
    wheel.advance(490)
    wheel.arm("armed on the finest level", 500)
    assert wheel.advance(500) == [
        (500, "armed on a coarse level"),
        (500, "armed on the finest level"),
    ]


def test_arming_again_replaces_and_cancelling_disarms() -> None:
    wheel: TimingWheel[str] = TimingWheel(START_MS)
    wheel.arm("a", START_MS + 10)
    wheel.arm("a", START_MS + 5_000)
    wheel.arm("b", START_MS + 10)
    assert wheel.cancel("b")
    assert not wheel.cancel("b")
    assert len(wheel) == 1
    assert wheel.advance(START_MS + 4_999) == []
    assert wheel.advance(START_MS + 5_000) == [(START_MS + 5_000, "a")]
    assert len(wheel) == 0
    assert wheel.next_ms() is None


def test_arming_again_moves_a_key_between_levels() -> None:
    wheel: TimingWheel[str] = TimingWheel(0)
    wheel.arm("a", 5)
    wheel.arm("a", 500_000)
    assert wheel.deadline_ms("a") == 500_000
    wheel.arm("a", 7)
    assert (wheel.next_ms(), len(wheel)) == (7, 1)
    assert wheel.advance(400) == [(7, "a")]
    assert wheel.advance(600_000) == []


def test_slot_without_entries_is_no_reason_to_wake() -> None:
    wheel: TimingWheel[str] = TimingWheel(0)
    wheel.arm("a", 5_000)
    wheel.arm("b", 90_000)
    assert wheel.cancel("a")
    next_ms = wheel.next_ms()
    assert next_ms is not None
    assert 5_000 < next_ms <= 90_000
    assert wheel.cancel("b")
    assert wheel.next_ms() is None


def test_slot_is_used_again_in_its_next_turn() -> None:
    """Slot 3 of the finest level is that of 3, 23, 43 ms; also if it was emptied before."""
    wheel: TimingWheel[int] = TimingWheel(0)
    for turn in range(5):
        deadline_ms = 3 + turn * SLOTS
        wheel.arm(-1, deadline_ms)
        wheel.cancel(-1)
        wheel.arm(turn, deadline_ms)
        assert wheel.advance(deadline_ms - 1) == []
        assert wheel.advance(deadline_ms) == [(deadline_ms, turn)]


def test_long_jump_fires_everything_in_order_and_once() -> None:
    wheel: TimingWheel[int] = TimingWheel(START_MS)
    delays = [delay * delay for delay in range(1, 400)]
    for delay_ms in sorted(delays, key=lambda delay: delay % 7):
        wheel.arm(delay_ms, START_MS + delay_ms)
    due = wheel.advance(START_MS + YEAR_MS)
    assert due == [(START_MS + delay_ms, delay_ms) for delay_ms in delays]
    assert wheel.advance(START_MS + 2 * YEAR_MS) == []


def test_key_armed_after_a_jump_fires_on_time() -> None:
    wheel: TimingWheel[str] = TimingWheel(START_MS)
    wheel.advance(START_MS + YEAR_MS)
    wheel.arm("a", START_MS + YEAR_MS + 25)
    assert wheel.advance(START_MS + YEAR_MS + 24) == []
    assert wheel.advance(START_MS + YEAR_MS + 25) == [(START_MS + YEAR_MS + 25, "a")]


def test_far_deadline_costs_levels_and_not_time() -> None:
    wheel: TimingWheel[str] = TimingWheel(0)
    wheel.arm("a century", 100 * YEAR_MS)
    wakes = 0
    while (next_ms := wheel.next_ms()) is not None:
        wakes += 1
        fired = wheel.advance(next_ms)
    assert fired == [(100 * YEAR_MS, "a century")]
    assert wakes <= 12  # one per level


def test_clock_that_stops_or_goes_back_fires_nothing_early() -> None:
    wheel: TimingWheel[str] = TimingWheel(1_000)
    wheel.arm("a", 1_050)
    assert wheel.advance(1_000) == []
    assert wheel.advance(900) == []
    assert wheel.advance(1_049) == []
    assert wheel.advance(1_050) == [(1_050, "a")]
