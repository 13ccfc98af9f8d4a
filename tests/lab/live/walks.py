"""The walk-throughs of the documents with real clients, generation by generation."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from coterie.lab.live.run import LiveOptions, run_live
from coterie.lab.outcome import RunOutcome
from coterie.lab.scenario import load_scenario
from coterie.processes.lines import Line, Reader


class WalkDiffers(Exception):  # noqa: N818 - the name says what happened
    """Real clients did something else than the document says."""


class Round(NamedTuple):
    """A generation.

    Attributes:
        number: of the generation.
        at_s: when the first member was in it, since the run began.
        owned: the partitions of each member at its end.
        delay_s: Connect's delay.
    """

    number: int
    at_s: float
    owned: dict[str, list[int]]
    delay_s: float


def rounds_of(lines: list[Line]) -> list[Round]:
    """Return the generations in order."""
    found: dict[int, Round] = {}
    owned: dict[str, set[int]] = {}
    member_in: dict[str, int] = {}
    for line in lines:
        if line.event == "generation":
            number = line.fields["generation"]
            member_in[line.member] = number
            at_s = (line.at_us - lines[0].at_us) / 1e6
            found.setdefault(number, Round(number, at_s, {}, 0.0))
        elif line.event in ("assigned", "revoked", "lost"):
            numbers = {number for _, number in line.partitions}
            before = owned.get(line.member, set())
            owned[line.member] = before | numbers if line.event == "assigned" else before - numbers
        elif line.event == "delay":
            number = member_in[line.member]
            found[number] = found[number]._replace(delay_s=line.fields["ms"] / 1_000)
        if line.member in member_in:
            # Pods have one digit here.
            name = line.member.split(".")[0][-1]
            found[member_in[line.member]].owned[name] = sorted(owned.get(line.member, ()))
    return [found[number] for number in sorted(found)]


def walk(
    folder: Path, client: str, machine: str, members: int, partitions: int,
    steps: list[dict[str, Any]], form_s: int, **settings: Any,
) -> tuple[list[Round], RunOutcome]:  # fmt: skip
    """Run steps with real clients."""
    scenario = load_scenario("three-and-one")._replace(
        name="walk", members=members, partitions=partitions, form_s=form_s, tail_s=120,
        script=[{"jitter_s": 0, **step} for step in steps], expect=(),
    )  # fmt: skip
    options = LiveOptions(client, machine, settings=settings)
    result = run_live(scenario, options, folder, print, lambda _: None)
    return rounds_of(Reader(folder / "lines").new_lines()), result.outcome


def require(holds: object, text: str) -> None:
    """Raise that a walk differs unless something holds."""
    if not holds:
        raise WalkDiffers(text)


def shown(rounds: list[Round]) -> Iterator[str]:
    """Yield a line for each generation."""
    for each in rounds:
        tasks = "  ".join(f"{name}: {owned}" for name, owned in sorted(each.owned.items()))
        delay = f"  delay {each.delay_s:g} s" if each.delay_s else ""
        yield f"generation {each.number:2} at {each.at_s:6.2f} s  {tasks}{delay}"


def third_joins(client: str, folder: Path) -> Iterator[str]:
    """Document 000, first walk: a third member joins two that read six partitions."""
    rounds, outcome = walk(folder, client, "cooperative", 2, 6, [{"at_s": 0, "do": "join"}], 12)
    with_two = max(index for index, each in enumerate(rounds) if len(each.owned) == 2)
    yield from shown(rounds[with_two:])
    before, first, *later = (each.owned for each in rounds[with_two:])
    require(sorted(map(len, before.values())) == [3, 3], "the two do not have three each")
    require(not first["2"], "the third has something in the first round")
    require(sorted(map(len, later[-1].values())) == [2, 2, 2], "not two each at the end")
    # A member that learns late what it has to give up does so one round later.
    require(len(later) <= 2, f"{len(later) + 1} generations")
    require(outcome.metrics["moves"] == 2, f"{outcome.metrics['moves']} moves, not 2")
    require(outcome.metrics["double"] == 0, "two members have read one partition")


def log_of_two_clients(client: str, folder: Path) -> Iterator[str]:
    """Document 001, 2.4: generations 9, 10 and 11."""
    restarts = [{"at_s": 6 * index, "do": "restart", "pod": 0, "down_s": 2} for index in range(4)]
    steps = [*restarts, {"at_s": 30, "do": "join"}]
    rounds, _ = walk(folder, client, "cooperative", 1, 3, steps, 10, initial_delay_ms=0)
    yield from shown(rounds)
    last = {each.number: each for each in rounds}
    require(9 <= max(last) <= 11 and {9, 10, 11} <= last.keys(), f"generations {list(last)}")
    require(last[9].owned == {"0": [0, 1, 2]}, "one client does not have all in generation 9")
    require(len(last[10].owned["0"]) == 2, "the first client does not give up one")
    require(len(last[11].owned["1"]) == 1, "the second client does not get it")
    wait_s = last[11].at_s - last[10].at_s
    yield f"from generation 10 to 11: {wait_s:.2f} s (in the document 3.1 s)"
    require(wait_s <= 3.5, "generation 11 came later than a heartbeat")


def worker_bounces(folder: Path) -> Iterator[str]:
    """Document 000, second walk: a worker of Connect is killed and comes back within the delay."""
    steps: list[dict[str, Any]] = [
        {"at_s": 0, "do": "join"},
        {"at_s": 45, "do": "restart", "crash": True, "pod": 1, "down_s": 14},
    ]
    rounds, _ = walk(folder, "connect", "connect", 1, 8, steps, 40, connect_delay_ms=45_000)
    require(len(rounds) >= 4, f"{len(rounds)} generations")
    yield from shown(rounds[-4:])
    before, lost, back, again = rounds[-4:]
    require(lost.delay_s == 45, f"the delay is {lost.delay_s} s")
    require(not back.owned["1"], "the returned worker is not empty")
    # The delay goes on and does not begin anew, however long the worker needed to start.
    left_s = lost.delay_s - (back.at_s - lost.at_s)
    require(left_s > 0 and abs(back.delay_s - left_s) < 1, f"the delay is {back.delay_s} s then")
    require(again.owned == before.owned, "its tasks do not come back")
    require(abs(again.at_s - back.at_s - back.delay_s) < 3, "they come back at another time")


def worker_leaves(folder: Path) -> Iterator[str]:
    """Document 000, third walk: a worker leaves; after the delay the rest take over."""
    steps: list[dict[str, Any]] = [
        {"at_s": 0, "do": "join"},
        {"at_s": 45, "do": "leave", "pod": 1},
        {"at_s": 65, "do": "join"},
    ]
    rounds, _ = walk(folder, "connect", "connect", 1, 8, steps, 40, connect_delay_ms=10_000)
    require(len(rounds) >= 4, f"{len(rounds)} generations")
    yield from shown(rounds[-4:])
    left, taken, revoked, balanced = rounds[-4:]
    require(left.delay_s == 10 and len(left.owned["0"]) == 4, f"the delay is {left.delay_s} s")
    require(len(taken.owned["0"]) == 8, "the survivor does not take over")
    require(abs(taken.at_s - left.at_s - 10) < 2, "not after ten seconds")
    require(len(revoked.owned["0"]) == 4 and not revoked.owned["2"], "no revoking round")
    require(len(balanced.owned["2"]) == 4, "the third worker gets nothing")


WALKS: dict[str, Callable[[Path], Iterator[str]]] = {
    "000-join-kafka-python": partial(third_joins, "kafka-python"),
    "000-join-confluent": partial(third_joins, "confluent"),
    "001-log-kafka-python": partial(log_of_two_clients, "kafka-python"),
    "001-log-confluent": partial(log_of_two_clients, "confluent"),
    "000-bounce-connect": worker_bounces,
    "000-leave-connect": worker_leaves,
}
