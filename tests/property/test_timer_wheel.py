"""The timing wheel and the purgatory compared with a sorted list, over all levels and any jump.

Scenario S154 of scenarios.tsv; [sessions/timers]
"""

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from coterie.coordinator.groups.classic.timers import TimerKind
from coterie.coordinator.kernel.purgatory import Purgatory
from coterie.coordinator.kernel.timer_wheel import TimingWheel
from coterie.coordinator.kernel.timers import TimerKey

KEYS = st.integers(0, 30)
# From the past over every level of the wheel to a year ahead, often at the end of a level.
DELAYS = st.one_of(
    st.integers(-50, 50),
    st.integers(0, 9_000),
    st.integers(0, 31_536_000_000),
    st.builds(lambda level, off: 20**level + off, st.integers(1, 7), st.integers(-1, 1)),
)


class WheelAgainstList(RuleBasedStateMachine):
    """Arm, cancel and advance at random."""

    @initialize(start_ms=st.integers(0, 2_000_000_000_000))
    def start(self, start_ms: int) -> None:
        self.now_ms = start_ms
        self.wheel: TimingWheel[int] = TimingWheel(start_ms)
        self.model: dict[int, tuple[int, int]] = {}
        self.serial = 0

    @rule(key=KEYS, delay_ms=DELAYS)
    def arm(self, key: int, delay_ms: int) -> None:
        self.serial += 1
        self.wheel.arm(key, self.now_ms + delay_ms)
        self.model[key] = (self.now_ms + delay_ms, self.serial)

    @rule(key=KEYS)
    def cancel(self, key: int) -> None:
        assert self.wheel.cancel(key) == (self.model.pop(key, None) is not None)

    @rule(jump_ms=DELAYS)
    def advance(self, jump_ms: int) -> None:
        self.now_ms += max(jump_ms, 0)
        self._advance()

    @precondition(lambda self: self.model)
    @rule()
    def advance_to_the_next_slot(self) -> None:
        next_ms = self.wheel.next_ms()
        assert next_ms is not None
        self.now_ms = max(self.now_ms, next_ms)
        self._advance()

    def _advance(self) -> None:
        due = sorted((when, key) for key, when in self.model.items() if when[0] <= self.now_ms)
        assert self.wheel.advance(self.now_ms) == [(when[0], key) for when, key in due]
        for _, key in due:
            del self.model[key]

    @invariant()
    def wheel_equals_list(self) -> None:
        if not hasattr(self, "model"):
            return
        assert len(self.wheel) == len(self.model)
        for key in range(31):
            armed = self.model.get(key)
            assert (key in self.wheel) == (armed is not None)
            assert self.wheel.deadline_ms(key) == (None if armed is None else armed[0])
        next_ms = self.wheel.next_ms()
        assert (next_ms is None) == (not self.model)
        if next_ms is not None:
            assert next_ms <= max(self.now_ms, min(self.model.values())[0])


TestWheel = WheelAgainstList.TestCase
TestWheel.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


# What handling a due operation does to others: (due operation, verb, other operation, delay).
REACTIONS = st.lists(
    st.tuples(st.integers(0, 5), st.sampled_from(["complete", "delay"]), st.integers(0, 5), DELAYS),
    max_size=6,
)


@given(
    st.dictionaries(st.integers(0, 5), st.integers(0, 400), max_size=6),
    REACTIONS,
    st.integers(0, 500),
)
@settings(deadline=None)
def test_due_operations_complete_and_delay_each_other(
    deadlines: dict[int, int], reactions: list[tuple[int, str, int, int]], now_ms: int
) -> None:
    """An operation is due at most once, and only while it is the current one of its key."""

    def key(number: int) -> TimerKey:
        return (TimerKind.SESSION, "g", str(number))

    purgatory = Purgatory()
    for number, deadline_ms in deadlines.items():
        purgatory.delay(key(number), deadline_ms)
    queue = sorted(deadlines, key=lambda number: (deadlines[number], list(deadlines).index(number)))
    current = dict(deadlines)
    replaced: set[int] = set()
    expected, due = [], []
    for number in queue:
        if deadlines[number] > now_ms or number in replaced or number not in current:
            continue
        expected.append(number)
        del current[number]
        for turn, verb, other, delay_ms in reactions:
            if turn == number:
                replaced.add(other)
                if verb == "complete":
                    current.pop(other, None)
                else:
                    current[other] = now_ms + delay_ms
    for each in purgatory.due(now_ms):
        number = int(each[2])
        due.append(number)
        for turn, verb, other, delay_ms in reactions:
            if turn == number and verb == "complete":
                purgatory.complete(key(other))
            elif turn == number:
                purgatory.delay(key(other), now_ms + delay_ms)
    assert due == expected
    assert {number: purgatory.deadline_ms(key(number)) for number in range(6)} == {
        number: current.get(number) for number in range(6)
    }
    assert len(purgatory) == len(current)
