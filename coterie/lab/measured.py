"""What real clients did, and what the model says about the same.

librdkafka 2.16.1: four members, twelve partitions, session 6 s, a heartbeat each 2 s, on Coterie
and on Kafka 4.3.1. aiokafka: fifty members, two hundred partitions, a heartbeat each 3 s, on
Coterie. Each cell was one run on a loaded machine, in partition-seconds without a reader.

The young groups of these runs sent their heartbeats nearly together, which decides more than the
protocol does; each cell therefore names the beat phase under which the model meets it.

Two kinds of cells needed more than a phase. A static member that stops costs 13.7 and 13.3 if it
does not commit at the end, because its session then ends six seconds after its last heartbeat; with
auto-commit the last commit extends the session. Both were measured again with librdkafka: 19.7 with
the commit, and 18.2 without it. The join of aiokafka that cost 589.9 came fifteen beats after the
one before, when the first of fifty members had just sent its heartbeat: all others stopped at once
and waited three seconds for that one. `struck` cells place the join there. Its group settled after
3.1 s, so callbacks take 45 ms, and fifteen beats had come 45.0 s apart, so beats drift little.
"""

from typing import Any, NamedTuple

from coterie.lab.kernel import SECOND
from coterie.lab.parameters import Parameters
from coterie.lab.run import Run, RunOptions, run
from coterie.lab.scenario import Scenario, load_scenario

_SMALL = {"rate": 20, "session_ms": 6_000, "heartbeat_ms": 2_000, "assign_ms": 2}
# A young group, between two beats of its crowd; and how long after the first beat a change comes.
_YOUNG_S = 43
_LATE_US = 5_000
_QUICK = {"poll_gap_ms": 5, "callback_ms": 1, "callback_partition_ms": 0}


class MeasuredCell(NamedTuple):
    """Runs of real clients.

    Attributes:
        machine, do: the protocol and what happened.
        phase: the beat phase of the model.
        measured: partition-seconds without a reader.
        members, partitions: the sizes.
        poll_gap_ms: how long the application takes.
        commits_on_close: whether a member that stops commits.
        drift_ms: how much later a heartbeat may be, in the phase `drifting`.
        callback_ms: how long a callback takes.
        runs: how many seeds give the range.
        struck: whether the change comes right after the first heartbeat of the crowd.
    """

    machine: str
    do: str
    phase: str
    measured: tuple[float, ...]
    members: int = 4
    partitions: int = 12
    poll_gap_ms: int = 5
    commits_on_close: bool = True
    struck: bool = False
    drift_ms: int = 100
    callback_ms: int = 1
    runs: int = 20

    @property
    def client(self) -> str:
        """The library that was measured."""
        return "librdkafka" if self.members == 4 else "aiokafka"

    def scenario(self) -> Scenario:
        """Return what is to be simulated."""
        step: dict[str, Any] = {"at_s": 0, "do": self.do}
        if self.do == "pause":
            step["s"] = 15
        return load_scenario("three-and-one")._replace(
            members=self.members,
            partitions=self.partitions,
            form_s=30 if self.client == "librdkafka" else 45,
            script=[step],
        )

    def settings(self) -> dict[str, Any]:
        """Return the settings of the model."""
        settings = {**_QUICK, "poll_gap_ms": self.poll_gap_ms, "beat_phase": self.phase}
        settings["commits_on_close"] = int(self.commits_on_close)
        settings |= {"beat_drift_ms": self.drift_ms, "callback_ms": self.callback_ms}
        return {**settings, **_SMALL} if self.client == "librdkafka" else settings

    def simulated(self, seeds: int) -> list[float]:
        """Return what the model says, sorted, for some seeds."""
        options = RunOptions(self.settings())
        outcomes = (
            run(self.machine, self._struck(seed) if self.struck else self.scenario(), seed, options)
            for seed in range(seeds)
        )
        return sorted(outcome.metrics["unowned"] or 0.0 for outcome in outcomes)

    def _struck(self, seed: int) -> Scenario:
        """Return the scenario with the change right after the first beat of a crowd."""
        scenario = self.scenario()
        idle = scenario._replace(script=[], form_s=_YOUNG_S)
        watched = Run(self.machine, idle, seed, RunOptions(self.settings()))
        beat_us = watched.first_of_next("Heartbeat", _YOUNG_S * SECOND)
        # The process needs `start_ms` and three requests until its second JoinGroup is there.
        at_s = (beat_us + _LATE_US) / SECOND - Parameters().start_ms / 1_000 - _YOUNG_S
        step = {**scenario.script[0], "at_s": max(0.0, at_s), "jitter_s": 0}
        return idle._replace(script=[step])


SMALL_CELLS = (
    MeasuredCell("eager-3", "join", "drifting", (0.7, 2.5)),
    MeasuredCell("eager-3", "leave", "restarted", (3.2, 5.0)),
    MeasuredCell("eager-3", "crash", "drifting", (23.8, 24.0)),
    MeasuredCell("eager-3", "pause", "drifting", (18.6,)),
    MeasuredCell("eager-3", "pause", "kept", (35.8,)),
    MeasuredCell("static", "join", "restarted", (0.1, 0.2)),
    MeasuredCell(
        "static", "leave", "restarted", (13.7, 13.3, 18.2), commits_on_close=False, runs=100
    ),
    MeasuredCell("static", "leave", "restarted", (19.7,)),
    MeasuredCell("static", "crash", "drifting", (20.6, 19.9)),
    MeasuredCell("static", "pause", "kept", (35.9,)),
    MeasuredCell("static", "pause", "drifting", (22.3,)),
    MeasuredCell("cooperative", "join", "kept", (4.0, 4.0)),
    MeasuredCell("cooperative", "leave", "restarted", (2.9, 1.9)),
    MeasuredCell("cooperative", "crash", "kept", (22.7, 21.1)),
    MeasuredCell("cooperative", "pause", "kept", (20.9, 26.9)),
)
LARGE_CELLS = (
    MeasuredCell("eager-3", "join", "kept", (325.7,), 50, 200, runs=10),
    MeasuredCell("eager-3", "join", "restarted", (11.8,), 50, 200, 15, runs=10),
    MeasuredCell(
        "eager-3",
        "join",
        "drifting",
        (589.9,),
        50,
        200,
        15,
        struck=True,
        drift_ms=20,
        callback_ms=45,
        runs=10,
    ),
    MeasuredCell("eager-3", "leave", "restarted", (7.6,), 50, 200, 3, runs=10),
)
