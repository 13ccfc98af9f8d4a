"""The levels of the timing wheel: overflow, the turns of a level, jumps, the far future.

The plain cases stand in test_timers.py, random ones in tests/property/test_timer_wheel.py.
"""

import pytest

from coterie.coordinator.timer_wheel import SLOTS, TimingWheel

START_MS = 1_700_000_000_123
YEAR_MS = 365 * 24 * 3_600_000


def drain(wheel: "TimingWheel[int]") -> list[tuple[int, int]]:
    """Advance from slot to slot until nothing is left: when each key came, and the key."""
    fired = []
    while (next_ms := wheel.next_ms()) is not None:
        fired += [(next_ms, key) for _, key in wheel.advance(next_ms)]
    return fired


@pytest.mark.parametrize("level", range(1, 9))
def test_the_borders_of_every_level(level: int) -> None:
    border_ms = SLOTS**level
    delays = [border_ms - 1, border_ms, border_ms + 1, 2 * border_ms - 1]
    wheel: TimingWheel[int] = TimingWheel(START_MS)
    for delay_ms in delays:
        wheel.arm(delay_ms, START_MS + delay_ms)
    assert drain(wheel) == [(START_MS + delay_ms, delay_ms) for delay_ms in delays]


def test_a_wheel_that_starts_in_the_middle_of_its_slots() -> None:
    for start_ms in (*range(25), 399, 7_999, START_MS):
        wheel: TimingWheel[int] = TimingWheel(start_ms)
        for delay_ms in (0, 1, 19, 20, 381, 7_602):
            wheel.arm(delay_ms, start_ms + delay_ms)
        assert drain(wheel) == [(start_ms + d, d) for d in (0, 1, 19, 20, 381, 7_602)]


def test_equal_deadlines_come_in_the_order_of_arming() -> None:
    """Also where one of them waited on a coarse level and the other did not."""
    wheel: TimingWheel[str] = TimingWheel(0)
    wheel.arm("from far away", 500)
    wheel.advance(490)
    wheel.arm("from close by", 500)
    assert wheel.advance(500) == [(500, "from far away"), (500, "from close by")]


def test_arming_again_moves_between_levels() -> None:
    wheel: TimingWheel[str] = TimingWheel(0)
    wheel.arm("a", 5)
    wheel.arm("a", 500_000)
    assert wheel.deadline_ms("a") == 500_000
    wheel.arm("a", 7)
    assert (wheel.next_ms(), len(wheel)) == (7, 1)
    assert wheel.advance(400) == [(7, "a")]
    assert wheel.advance(600_000) == []


def test_a_cancelled_slot_of_a_coarse_level_is_no_reason_to_wake() -> None:
    wheel: TimingWheel[str] = TimingWheel(0)
    wheel.arm("a", 5_000)
    wheel.arm("b", 90_000)
    assert wheel.cancel("a")
    next_ms = wheel.next_ms()
    assert next_ms is not None
    assert 5_000 < next_ms <= 90_000
    assert wheel.cancel("b")
    assert wheel.next_ms() is None


def test_a_slot_is_used_again_in_its_next_turn() -> None:
    """Slot 3 of the finest level stands for 3, 23, 43 ...: also after it was left empty."""
    wheel: TimingWheel[int] = TimingWheel(0)
    for turn in range(5):
        deadline_ms = 3 + turn * SLOTS
        wheel.arm(-1, deadline_ms)
        wheel.cancel(-1)
        wheel.arm(turn, deadline_ms)
        assert wheel.advance(deadline_ms - 1) == []
        assert wheel.advance(deadline_ms) == [(deadline_ms, turn)]


def test_a_big_jump_hands_everything_out_in_order_and_once() -> None:
    wheel: TimingWheel[int] = TimingWheel(START_MS)
    delays = [delay * delay for delay in range(1, 400)]
    for delay_ms in sorted(delays, key=lambda delay: delay % 7):
        wheel.arm(delay_ms, START_MS + delay_ms)
    due = wheel.advance(START_MS + YEAR_MS)
    assert due == [(START_MS + delay_ms, delay_ms) for delay_ms in delays]
    assert wheel.advance(START_MS + 2 * YEAR_MS) == []


def test_what_is_armed_after_a_jump_counts_from_there() -> None:
    wheel: TimingWheel[str] = TimingWheel(START_MS)
    wheel.advance(START_MS + YEAR_MS)
    wheel.arm("a", START_MS + YEAR_MS + 25)
    assert wheel.advance(START_MS + YEAR_MS + 24) == []
    assert wheel.advance(START_MS + YEAR_MS + 25) == [(START_MS + YEAR_MS + 25, "a")]


def test_the_far_future_costs_levels_and_no_time() -> None:
    wheel: TimingWheel[str] = TimingWheel(0)
    wheel.arm("a century", 100 * YEAR_MS)
    wakes = 0
    while (next_ms := wheel.next_ms()) is not None:
        wakes += 1
        fired = wheel.advance(next_ms)
    assert fired == [(100 * YEAR_MS, "a century")]
    assert wakes <= 12  # one a level


def test_a_clock_that_stands_still_or_goes_back_fires_nothing_early() -> None:
    wheel: TimingWheel[str] = TimingWheel(1_000)
    wheel.arm("a", 1_050)
    assert wheel.advance(1_000) == []
    assert wheel.advance(900) == []
    assert wheel.advance(1_049) == []
    assert wheel.advance(1_050) == [(1_050, "a")]
