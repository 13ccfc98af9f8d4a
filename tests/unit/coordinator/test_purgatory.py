"""The purgatory: every operation ends once, by an event or by time, and nothing remains of it.

Scenarios S150 to S153 of tests/transcripts/scenarios.tsv.

Rules: [sessions/timers], [sessions/session-timeout].
"""

from coterie.coordinator.groups.classic.timers import TimerKind
from coterie.coordinator.groups.shard import SWEEP_TIMER
from coterie.coordinator.kernel.purgatory import Purgatory
from coterie.coordinator.kernel.timers import Timer, TimerKey
from tests.unit.coordinator.harness import START_MS, UnitHarness


def key(name: str, kind: str = TimerKind.SESSION) -> TimerKey:
    return (kind, "g", name)


def test_operation_ends_once_by_event_or_by_time() -> None:
    purgatory = Purgatory(START_MS)
    purgatory.delay(key("event"), START_MS + 10)
    purgatory.delay(key("time"), START_MS + 10)
    assert purgatory.complete(key("event"))
    assert not purgatory.complete(key("event"))
    assert list(purgatory.due(START_MS + 9)) == []
    assert list(purgatory.due(START_MS + 10)) == [key("time")]
    assert list(purgatory.due(START_MS + 20)) == []
    assert not purgatory.complete(key("time"))


def test_operation_that_an_earlier_one_completes_or_delays_is_not_due() -> None:
    purgatory = Purgatory(START_MS)
    for name in ("a", "b", "c"):
        purgatory.delay(key(name), START_MS + 10)
    due = []
    for each in purgatory.due(START_MS + 10):
        due.append(each)
        if each == key("a"):
            purgatory.complete(key("b"))
            purgatory.apply(Timer(key("c"), START_MS + 30))
    assert due == [key("a")]
    assert list(purgatory.due(START_MS + 30)) == [key("c")]


def test_operation_delayed_again_to_the_same_time_is_due_at_the_next_call() -> None:
    purgatory = Purgatory()
    purgatory.delay(key("a"), 10)
    due = []
    for each in purgatory.due(10):
        due.append(each)
        purgatory.delay(key("a"), 10)
    assert due == [key("a")]
    assert purgatory.next_deadline_ms() == 10
    assert list(purgatory.due(10)) == [key("a")]
    assert list(purgatory.due(10)) == []


def test_due_operation_that_another_delays_and_completes_has_ended() -> None:
    purgatory = Purgatory()
    for name in ("a", "b"):
        purgatory.delay(key(name), 10)
    for each in purgatory.due(10):
        assert each == key("a")
        purgatory.delay(key("b"), 10)
        purgatory.complete(key("b"))
    assert len(purgatory) == 0
    assert purgatory.next_deadline_ms() is None


def test_due_operations_that_the_caller_left_are_due_at_the_next_call() -> None:
    purgatory = Purgatory()
    for name in ("a", "b"):
        purgatory.delay(key(name), 10)
    assert next(iter(purgatory.due(10))) == key("a")
    assert (len(purgatory), purgatory.next_deadline_ms()) == (1, 10)
    assert purgatory.deadline_ms(key("b")) == 10
    purgatory.delay(key("c"), 11)
    assert list(purgatory.due(11)) == [key("b"), key("c")]


def test_operations_of_different_kinds_are_different() -> None:
    purgatory = Purgatory()
    purgatory.apply(Timer(key("", TimerKind.JOIN), 10))
    purgatory.apply(Timer(key("", TimerKind.SYNC), 20))
    purgatory.apply(Timer(key("", SWEEP_TIMER), 30))
    purgatory.apply(Timer(key("", TimerKind.JOIN), None))
    assert purgatory.deadline_ms(key("", TimerKind.JOIN)) is None
    assert purgatory.deadline_ms(key("", TimerKind.SYNC)) == 20
    assert purgatory.deadline_ms(key("", SWEEP_TIMER)) == 30


def test_completing_an_absent_operation_does_nothing() -> None:
    purgatory = Purgatory()
    assert not purgatory.complete(key("absent"))
    purgatory.apply(Timer(key("absent"), None))
    assert len(purgatory) == 0


def test_nothing_remains_of_completed_operations() -> None:
    purgatory = Purgatory(START_MS)
    for number in range(5_000):
        purgatory.delay(key(str(number)), START_MS + number)
        if number % 2:
            purgatory.complete(key(str(number)))
    assert len(purgatory) == 2_500
    assert len(list(purgatory.due(START_MS + 5_000))) == 2_500
    assert len(purgatory) == 0
    assert purgatory.next_deadline_ms() is None


# -- in the coordinator ----------------------------------------------------------------------------


def test_heartbeats_leave_one_entry_per_member() -> None:
    """However often a session is extended, its entry stays until it fires (S151)."""
    harness = UnitHarness()
    generation_id = harness.stable("c1", "c2")
    delayed = len(harness.coordinator.purgatory)
    for _ in range(500):
        harness.wait(20)
        for name in ("c1", "c2"):
            harness.heartbeat(harness.id_of(name), generation_id)
        assert len(harness.coordinator.purgatory) == delayed
    harness.wait(9_999)
    assert len(harness.group().members) == 2
    harness.wait(1)
    assert not harness.group().members


def test_unload_leaves_no_timer() -> None:
    """The sessions of members whose group is unloaded (S153)."""
    harness = UnitHarness()
    harness.stable("c1")
    harness.take(harness.coordinator.unload(0, None, harness.now_ms))
    assert len(harness.coordinator.purgatory) == 0
    effects = harness.coordinator.advance(harness.now_ms + 1_000_000)
    assert effects.quiet


def test_session_and_join_phase_that_end_together() -> None:
    """The member is removed once, and one generation begins."""
    harness = UnitHarness()
    harness.stable("c1", "c2")
    harness.wait(1_000)
    harness.heartbeat(harness.id_of("c1"), 1)
    harness.join("c1 again", harness.id_of("c1"), rebalance_ms=9_000)
    for member in harness.group().members.values():
        member.rebalance_timeout_ms = 9_000
    harness.coordinator.purgatory.delay((TimerKind.JOIN, "g", ""), harness.now_ms + 9_000)
    harness.wait(9_000)
    assert list(harness.group().members) == [harness.id_of("c1")]
    assert harness.responses["c1 again"].generation_id == 2
