"""The purgatory beyond one operation: what an end changes for others that are due (S150 to S153).

The plain cases stand in test_timers.py.
"""

from coterie.coordinator.effects import Timer, TimerKey, TimerKind
from coterie.coordinator.purgatory import Purgatory
from tests.unit.coordinator.desk import Desk


def key(name: str, kind: TimerKind = TimerKind.SESSION) -> TimerKey:
    return (kind, "g", name)


def test_an_operation_delayed_again_to_the_same_moment_comes_with_the_next_call() -> None:
    purgatory = Purgatory()
    purgatory.delay(key("a"), 10)
    seen = []
    for each in purgatory.due(10):
        seen.append(each)
        purgatory.delay(key("a"), 10)
    assert seen == [key("a")]
    assert purgatory.next_deadline_ms() == 10
    assert list(purgatory.due(10)) == [key("a")]
    assert list(purgatory.due(10)) == []


def test_a_due_operation_that_is_delayed_and_completed_by_another_is_gone() -> None:
    purgatory = Purgatory()
    for name in ("a", "b"):
        purgatory.delay(key(name), 10)
    for each in purgatory.due(10):
        assert each == key("a")
        purgatory.delay(key("b"), 10)
        purgatory.complete(key("b"))
    assert len(purgatory) == 0
    assert purgatory.next_deadline_ms() is None


def test_keys_of_one_name_and_other_kinds_are_others() -> None:
    purgatory = Purgatory()
    purgatory.apply(Timer(key("", TimerKind.JOIN), 10))
    purgatory.apply(Timer(key("", TimerKind.SYNC), 20))
    purgatory.apply(Timer(key("", TimerKind.EXPIRY), 30))
    purgatory.apply(Timer(key("", TimerKind.JOIN), None))
    assert purgatory.deadline_ms(key("", TimerKind.JOIN)) is None
    assert purgatory.deadline_ms(key("", TimerKind.SYNC)) == 20
    assert purgatory.deadline_ms(key("", TimerKind.EXPIRY)) == 30


def test_completing_what_is_not_there_is_harmless() -> None:
    purgatory = Purgatory()
    assert not purgatory.complete(key("nobody"))
    purgatory.apply(Timer(key("nobody"), None))
    assert len(purgatory) == 0


def test_heartbeats_leave_one_entry_a_member() -> None:
    """However often a session is moved, its wheel entry stays where it is until it fires (S151)."""
    desk = Desk()
    generation_id = desk.stable("c1", "c2")
    waiting = len(desk.coordinator.purgatory)
    for _ in range(500):
        desk.wait(20)
        for name in ("c1", "c2"):
            desk.heartbeat(desk.id_of(name), generation_id)
        assert len(desk.coordinator.purgatory) == waiting
    desk.wait(9_999)
    assert len(desk.group().members) == 2
    desk.wait(1)
    assert not desk.group().members


def test_late_timers_of_a_group_that_is_gone_are_harmless() -> None:
    """The sessions of members whose group was unloaded under them (S153)."""
    desk = Desk()
    desk.stable("c1")
    desk.take(desk.coordinator.unload(0, None, desk.now_ms))
    assert len(desk.coordinator.purgatory) == 0
    effects = desk.coordinator.advance(desk.now_ms + 1_000_000)
    assert effects.quiet


def test_two_timers_of_one_group_in_one_moment() -> None:
    """A session and the join phase end together: the member goes once, one generation comes."""
    desk = Desk()
    desk.stable("c1", "c2")
    desk.wait(1_000)
    desk.heartbeat(desk.id_of("c1"), 1)
    desk.join("c1 again", desk.id_of("c1"), rebalance_ms=9_000)
    for member in desk.group().members.values():
        member.rebalance_timeout_ms = 9_000
    desk.coordinator.purgatory.delay((TimerKind.JOIN, "g", ""), desk.now_ms + 9_000)
    desk.wait(9_000)
    assert list(desk.group().members) == [desk.id_of("c1")]
    assert desk.answers["c1 again"].generation_id == 2
