"""The walk-throughs of the documents, generation by generation."""

from typing import Any

import pytest

from coterie.lab.machines.classic import ClassicGroup
from coterie.lab.machines.connect_worker import ConnectGroup
from coterie.lab.outcome import RunOutcome
from coterie.lab.run import Run, RunOptions
from coterie.lab.scenario import load_scenario
from coterie.protocol.messages.consumer_protocol import decode_assignment


def walk(
    machine: str, members: int, partitions: int, *steps: dict[str, Any], **settings: Any
) -> tuple[Run, RunOutcome]:
    """Run steps without jitter."""
    scenario = load_scenario("three-and-one")._replace(
        members=members,
        partitions=partitions,
        script=[{"at_s": 0, "jitter_s": 0, **step} for step in steps],
    )
    run = Run(machine, scenario, 1, RunOptions(settings))
    return run, run.finish()


def generations(run: Run) -> list[dict[str, list[int]]]:
    """Return the partitions of each member in each generation."""
    assert isinstance(run.machine, ClassicGroup)
    return [
        {
            member.client_id.split(".")[0][-1]: [
                number
                for topic in decode_assignment(member.assignment).assigned_partitions
                for number in topic.partitions
            ]
            for member in fact.members
        }
        for fact in run.machine.generations
    ]


def test_new_consumer_joins_two_with_six_partitions() -> None:
    """Document 000, first walk: two give up one partition each, which the third gets."""
    run, outcome = walk("cooperative", 2, 6, {"do": "join"})
    before, first, second = generations(run)[-3:]
    assert {member: len(owned) for member, owned in before.items()} == {"0": 3, "1": 3}
    assert {member: len(owned) for member, owned in first.items()} == {"0": 2, "1": 2, "2": 0}
    given_up = {each for owned in before.values() for each in owned} - {
        each for owned in first.values() for each in owned
    }
    assert second == {**first, "2": sorted(given_up)}
    assert len(given_up) == 2
    assert (outcome.metrics["moves"], outcome.metrics["fewest_moves"]) == (2, 2)


def test_log_of_two_clients() -> None:
    """Document 001, 2.4: the client that was alone gives one up; the round after a heartbeat."""
    run, outcome = walk("cooperative", 1, 3, {"do": "join"})
    ninth, tenth, eleventh = generations(run)[-3:]
    assert ninth == {"0": [0, 1, 2]}
    assert {member: len(owned) for member, owned in tenth.items()} == {"0": 2, "1": 0}
    assert eleventh["0"] == tenth["0"]
    assert len(eleventh["1"]) == 1
    assert isinstance(run.machine, ClassicGroup)
    tenth_ms, eleventh_ms = (fact.at_ms for fact in run.machine.generations[-2:])
    # In the document 3.1 s: client 2 hears of the round by its next heartbeat.
    assert 0 < eleventh_ms - tenth_ms <= 3_200
    assert outcome.metrics["unowned"] == pytest.approx((eleventh_ms - tenth_ms) / 1e3, abs=0.1)


def rounds(run: Run) -> list[tuple[int, dict[str, list[int]]]]:
    """Return the delay of each round of Connect, and the tasks of each worker after it."""
    assert isinstance(run.machine, ConnectGroup)
    return [
        (delay_ms, {name.split(".")[0][-1]: _tasks(units) for name, units in after.items()})
        for _, delay_ms, after in run.machine.rounds
    ]


def _tasks(units: list[tuple[str, int]]) -> list[int]:
    return [task for _, task in units if task >= 0]


LOST, KEPT = [0, 1, 2, 3], [4, 5, 6, 7]


def test_worker_bounces() -> None:
    """Document 000, second walk, and the trace of two real workers of Connect 4.3.1."""
    run, outcome = walk(
        "connect", 2, 8, {"do": "restart", "crash": True, "down_s": 27, "pod": 1},
        connect_delay_ms=45_000,
    )  # fmt: skip
    before, lost, back, again = rounds(run)[-4:]
    assert before == (0, {"0": KEPT, "1": LOST})
    assert lost == (45_000, {"0": KEPT})
    remaining_ms, after = back
    assert after == {"0": KEPT, "1": []}, "the returned worker stays empty"
    assert 20_000 < remaining_ms < 30_000
    assert again == (0, {"0": KEPT, "1": LOST}), "its tasks come back when the delay is over"
    # Measured: four tasks for 56 s.
    assert outcome.metrics["unowned"] == pytest.approx(4 * 56, rel=0.1)
    assert outcome.causes["delay"] == pytest.approx(4 * 45, rel=0.01)


def test_worker_leaves_permanently() -> None:
    """Document 000, third walk: when the delay is over the others take over; then one joins."""
    run, outcome = walk(
        "connect", 2, 8, {"do": "leave", "pod": 1}, {"do": "join", "at_s": 30},
        connect_delay_ms=10_000,
    )  # fmt: skip
    left, taken, revoked, balanced = rounds(run)[-4:]
    assert left == (10_000, {"0": KEPT})
    assert taken == (0, {"0": [*LOST, *KEPT]})
    assert revoked == (0, {"0": KEPT, "2": []})
    assert balanced == (0, {"0": KEPT, "2": LOST})
    assert outcome.causes["delay"] == pytest.approx(4 * 10, rel=0.01)


def test_leader_that_dies_leaves_no_delay() -> None:
    """A new leader knows of no previous assignment, so nothing is lost: it is all new."""
    run, _ = walk("connect", 2, 8, {"do": "crash", "pod": 0}, connect_delay_ms=45_000)
    assert rounds(run)[-1] == (0, {"1": [*LOST, *KEPT]})
