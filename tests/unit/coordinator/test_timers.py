"""The timing wheel and the purgatory: due in order, once, and nothing lingers.

Scenarios S144 and S149 to S154 of the conformance table; spec section 13.1.
"""

from hypothesis import given
from hypothesis import strategies as st

from coterie.coordinator.effects import Timer, TimerKey, TimerKind
from coterie.coordinator.purgatory import Purgatory
from coterie.coordinator.timer_wheel import TimingWheel

START_MS = 1_700_000_000_123


def key(name: str) -> TimerKey:
    return (TimerKind.SESSION, "g", name)


def test_what_is_already_due_is_handed_out_by_the_next_advance() -> None:
    wheel: TimingWheel[str] = TimingWheel(START_MS)
    wheel.arm("past", START_MS - 5)
    wheel.arm("now", START_MS)
    wheel.arm("soon", START_MS + 1)
    assert wheel.advance(START_MS) == [(START_MS - 5, "past"), (START_MS, "now")]
    assert wheel.advance(START_MS) == []
    assert wheel.advance(START_MS + 1) == [(START_MS + 1, "soon")]


def test_deadlines_on_every_level_come_in_order_and_on_time() -> None:
    wheel: TimingWheel[int] = TimingWheel(START_MS)
    delays = [1, 19, 20, 21, 399, 400, 401, 7_999, 8_000, 160_001, 3_200_000, 90_000_000]
    for delay in reversed(delays):
        wheel.arm(delay, START_MS + delay)
    fired: list[tuple[int, int]] = []
    while (next_ms := wheel.next_ms()) is not None:
        fired += [(next_ms, delay) for _, delay in wheel.advance(next_ms)]
    assert fired == [(START_MS + delay, delay) for delay in delays]


def test_arming_again_replaces_and_cancelling_forgets() -> None:
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


step = st.one_of(
    st.tuples(st.just("arm"), st.integers(0, 15), st.integers(-10, 200_000)),
    st.tuples(st.just("cancel"), st.integers(0, 15), st.just(0)),
    st.tuples(st.just("advance"), st.just(0), st.integers(0, 30_000)),
)


@given(st.lists(step, max_size=60))
def test_the_wheel_is_a_sorted_list(steps: list[tuple[str, int, int]]) -> None:
    wheel: TimingWheel[int] = TimingWheel(START_MS)
    model: dict[int, tuple[int, int]] = {}
    now_ms = START_MS
    for serial, (verb, name, amount) in enumerate(steps):
        if verb == "arm":
            wheel.arm(name, now_ms + amount)
            model[name] = (now_ms + amount, serial)
        elif verb == "cancel":
            assert wheel.cancel(name) == (model.pop(name, None) is not None)
        else:
            now_ms += amount
            due = sorted((when, name) for name, when in model.items() if when[0] <= now_ms)
            assert wheel.advance(now_ms) == [(when[0], name) for when, name in due]
            for _, name in due:
                del model[name]
        assert len(wheel) == len(model)
        next_ms = wheel.next_ms()
        assert (next_ms is None) == (not model)
        if next_ms is not None:
            assert next_ms <= max(now_ms, min(model.values())[0])


def test_an_operation_ends_by_its_event_or_by_its_time_and_once() -> None:
    purgatory = Purgatory(START_MS)
    purgatory.delay(key("event"), START_MS + 10)
    purgatory.delay(key("time"), START_MS + 10)
    assert purgatory.complete(key("event"))
    assert not purgatory.complete(key("event"))
    assert list(purgatory.due(START_MS + 9)) == []
    assert list(purgatory.due(START_MS + 10)) == [key("time")]
    assert list(purgatory.due(START_MS + 20)) == []
    assert not purgatory.complete(key("time"))


def test_what_one_operation_completes_is_not_handed_out_after_it() -> None:
    purgatory = Purgatory(START_MS)
    for name in ("a", "b", "c"):
        purgatory.delay(key(name), START_MS + 10)
    seen = []
    for each in purgatory.due(START_MS + 10):
        seen.append(each)
        if each == key("a"):
            purgatory.complete(key("b"))
            purgatory.apply(Timer(key("c"), START_MS + 30))
    assert seen == [key("a")]
    assert list(purgatory.due(START_MS + 30)) == [key("c")]


def test_nothing_lingers_of_what_has_ended() -> None:
    purgatory = Purgatory(START_MS)
    for number in range(5_000):
        purgatory.delay(key(str(number)), START_MS + number)
        if number % 2:
            purgatory.complete(key(str(number)))
    assert len(purgatory) == 2_500
    assert len(list(purgatory.due(START_MS + 5_000))) == 2_500
    assert len(purgatory) == 0
    assert purgatory.next_deadline_ms() is None
