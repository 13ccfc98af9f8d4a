"""Lines become an outcome, with the ledger of the simulation.

A member reads a partition from the callback that gives it until the callback that takes it, and
only while its process runs. That the group knows of a dead or paused member is seen when another
member gives something up; where nothing is given up, as in cooperative groups, the whole time
counts as `undetected`. The time that a new owner needs to fetch offsets is not seen: it counts as
reading. Records are not modelled but counted (deliveries.py).
"""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from coterie.assignors.model import TopicPartition
from coterie.lab.entries import in_seconds
from coterie.lab.gaps import POISON
from coterie.lab.kernel import SECOND, World
from coterie.lab.ledger import Ledger
from coterie.lab.live.deliveries import Deliveries
from coterie.lab.outcome import RunOutcome
from coterie.lab.scenario import Scenario
from coterie.lab.workload import Workload
from coterie.processes.lines import Line, Partition


class Measured(NamedTuple):
    """What was run.

    Attributes:
        scenario, machine, seed, settings: as in an outcome of the simulation.
        topics: the names of the topics in the order of the workload.
        script: the hash of the script.
        begin_us, last_us, end_us: the first event, the end of the last one, and the end of the
            measurement, in microseconds since 1970.
        calm_us: a group that has been calm for so long has settled; as in the simulation.
    """

    scenario: Scenario
    machine: str
    seed: int
    settings: dict[str, Any]
    topics: tuple[str, ...]
    script: str
    begin_us: int
    last_us: int
    end_us: int
    calm_us: int = 10 * SECOND


class Replay:
    """The lines of a run, in order, as calls of the ledger.

    Attributes:
        ledger: the ledger.
        owned: the partitions of each member.
        generation: the newest one that a member has seen.
    """

    def __init__(
        self, scenario: Scenario, machine: str, topics: Sequence[str], rate: int, begin_us: int
    ) -> None:
        """Prepare a replay.

        Args:
            scenario, machine: what was run.
            topics: the names of the topics in the order of the workload.
            rate: records a second in a partition.
            begin_us: when the first process was started, in microseconds since 1970.
        """
        self._world = World(0)
        workload = Workload(0, scenario.topics, scenario.partitions, rate, 10)
        self.ledger = Ledger(self._world, workload)
        self.owned: dict[str, set[Partition]] = {}
        self.generation = -1
        self._workload = workload
        self._topics = dict(zip(topics, workload.counts, strict=True))
        self._known = set(workload.partitions)
        self._incremental = machine in ("cooperative", "consumer", "streams", "connect")
        self._begin_us = begin_us
        # Members whose process is dead or stands still, and of which the group may not know.
        self._absent: set[str] = set()
        # Members that have ended; what is seen of them afterwards does not count.
        self._gone: set[str] = set()
        # Processes that have started and were not in the group yet.
        self._starting: set[str] = set()
        self._in_generation: dict[int, set[str]] = {}

    def read_generations(self, lines: Iterable[Line]) -> None:
        """Note who is in which generation, before the lines are replayed."""
        for line in lines:
            if line.event == "generation":
                members = self._in_generation.setdefault(line.fields["generation"], set())
                members.add(line.member)

    def apply(self, line: Line) -> None:
        """Apply one line."""
        self.go_to(line.at_us)
        handler = getattr(self, f"_{line.event.replace('-', '_')}", None)
        if handler is not None:
            handler(line)

    def go_to(self, at_us: int) -> None:
        """Let time pass up to a moment."""
        self._world.now_us = max(self._world.now_us, at_us - self._begin_us)

    # -- members -----------------------------------------------------------------------------------

    def _assigned(self, line: Line) -> None:
        self._others_know(line.member)
        self.ledger.count.attempts += 1
        self._has_joined(line.member)
        self._take(line.member, line.partitions)
        self.ledger.rejoining(line.member, False)

    def _taken(self, line: Line) -> None:
        """Apply a line of a client that says what it owns after each change."""
        self._has_joined(line.member)
        now = set(line.partitions)
        before = self.owned.get(line.member, set())
        if now != before:
            self._others_know(line.member)
        self._give_up(line.member, before - now)
        self._take(line.member, now - before)

    def _revoked(self, line: Line) -> None:
        if line.partitions:
            self._others_know(line.member)
        self._give_up(line.member, line.partitions)
        if not self._incremental:
            self.ledger.rejoining(line.member, True)

    def _lost(self, line: Line) -> None:
        self._give_up(line.member, line.partitions)

    def _ending(self, line: Line) -> None:
        self._gone.add(line.member)
        self._give_up(line.member, set(self.owned.get(line.member, ())))
        self.ledger.rejoining(line.member, False)

    def _generation(self, line: Line) -> None:
        number = line.fields["generation"]
        if number > self.generation:
            self.generation = number
            self.ledger.generation(sorted(self._in_generation.get(number, {line.member})))

    def _attempt(self, _line: Line) -> None:
        self.ledger.count.attempts += 1

    def _gave_up(self, line: Line) -> None:
        self.ledger.gave_up(line.member)

    def _delay(self, line: Line) -> None:
        """Apply that the leader of Connect waits from now on for so long."""
        now_us = self._world.now_us
        self.ledger.delays.add(now_us, now_us + line.fields["ms"] * 1_000)

    def _take(self, member: str, partitions: Iterable[Partition]) -> None:
        if member in self._gone:
            return
        owned = self.owned.setdefault(member, set())
        for each in sorted(partitions):
            partition = self._partition(each)
            if each not in owned and partition in self._known:
                owned.add(each)
                self.ledger.start(member, partition, 0)

    def _give_up(self, member: str, partitions: Iterable[Partition]) -> None:
        owned = self.owned.setdefault(member, set())
        for each in sorted(partitions):
            if each in owned:
                owned.discard(each)
                self.ledger.stop(member, self._partition(each))

    def _partition(self, each: Partition) -> TopicPartition:
        """Return the partition of the workload; topics of servers have names of their own."""
        topic, number = each
        return TopicPartition(self._topics.get(topic, ""), number)

    def _others_know(self, member: str) -> None:
        """Note that a rebalance is under way, which means that the absent members are known."""
        for absent in sorted(self._absent - {member}):
            self.ledger.noticed(absent)

    # -- processes ---------------------------------------------------------------------------------

    def _started(self, line: Line) -> None:
        member = line.fields["member"]
        self._gone.discard(member)
        self._starting.add(member)
        self.ledger.rejoining(member, True)

    def _has_joined(self, member: str) -> None:
        """Note that a new process has its first assignment, which may be empty."""
        if member in self._starting:
            self._starting.discard(member)
            self.ledger.rejoining(member, False)

    def _killed(self, line: Line) -> None:
        member = line.fields["member"]
        self._gone.add(member)
        self._absent.add(member)
        self.owned.pop(member, None)
        self.ledger.died(member)

    def _paused(self, line: Line) -> None:
        self._absent.add(line.fields["member"])
        self.ledger.suspend(line.fields["member"])

    def _resumed(self, line: Line) -> None:
        self._absent.discard(line.fields["member"])
        self.ledger.resume(line.fields["member"])

    def _exited(self, line: Line) -> None:
        self.owned.pop(line.fields["member"], None)
        self.ledger.end(line.fields["member"])

    # -- servers -----------------------------------------------------------------------------------

    def _grown(self, line: Line) -> None:
        added = self._workload.grow(line.fields["to"], self._world.now_us)
        self._known.update(added)
        self.ledger.grow(added)

    def _stuck(self, line: Line) -> None:
        """Apply that the reader of partitions tries one record again and again."""
        self.ledger.darken(map(self._partition, sorted(line.partitions)), POISON)

    def _skipped(self, line: Line) -> None:
        self.ledger.lighten(map(self._partition, sorted(line.partitions)))

    def _broker_gone(self, _line: Line) -> None:
        self.ledger.darken(self._workload.partitions)

    def _broker_back(self, _line: Line) -> None:
        self.ledger.lighten(self._workload.partitions)


def measure(
    lines: list[Line], what: Measured, rate: int, replay_class: type[Replay] = Replay
) -> RunOutcome:
    """Return the outcome of a run.

    Args:
        lines: all lines, in order of time.
        what: what was run.
        rate: records a second in a partition.
        replay_class: what makes calls of the ledger of the lines; see `LiveClient.replay`.
    """
    begin_us = min((line.at_us for line in lines), default=what.begin_us)
    replay = replay_class(what.scenario, what.machine, what.topics, rate, begin_us)
    deliveries = Deliveries(rate, what.begin_us, what.last_us)
    replay.read_generations(lines)
    counted = [line for line in lines if line.at_us <= what.end_us]
    for line in counted:
        if line.at_us >= what.begin_us and replay.ledger.window_us is None:
            replay.go_to(what.begin_us)
            replay.ledger.begin_window()
        replay.apply(line)
        deliveries.apply(line)
    replay.go_to(what.end_us)
    if replay.ledger.window_us is None:
        replay.ledger.begin_window()
    replay.ledger.end_window()
    return _outcome(replay, deliveries, what, what.begin_us - begin_us, _digest(counted))


def _outcome(
    replay: Replay, deliveries: Deliveries, what: Measured, offset_us: int, digest: str
) -> RunOutcome:
    """Return the outcome; times of the ledger begin `offset_us` before the window."""
    ledger, count = replay.ledger, replay.ledger.count
    window_us = what.end_us - what.begin_us
    calm_us, last_us = ledger.calm_since_us, what.last_us - what.begin_us + offset_us
    settle = None
    if calm_us is not None and what.end_us - what.begin_us + offset_us - calm_us >= what.calm_us:
        settle = in_seconds(max(0, calm_us - last_us))
    scenario = what.scenario
    metrics: dict[str, float | None] = {
        **count.ownership(),
        "settle_s": settle,
        "empty_members": sum(not owned for owned in replay.owned.values()),
        **deliveries.metrics(),
        "requests": None,
        "load_max_ms": None,
    }
    return RunOutcome(
        machine=what.machine,
        scenario=scenario.name,
        members=scenario.members,
        partitions=scenario.partitions,
        seed=what.seed,
        settings=what.settings,
        metrics=metrics,
        causes={cause: in_seconds(us) for cause, us in count.causes.items()},
        apis={},
        api_bytes={},
        estimated=[],
        window_s=in_seconds(window_us),
        evidence="measured",
        digest=digest,
        script=what.script,
        intervals=[
            each._replace(from_us=each.from_us - offset_us, to_us=each.to_us - offset_us)
            for each in ledger.intervals
        ],
    )


def _digest(lines: list[Line]) -> str:
    return hashlib.blake2b(repr(lines).encode(), digest_size=16).hexdigest()
