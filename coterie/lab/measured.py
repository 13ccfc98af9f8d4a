"""What real clients did, and what the model says about the same.

librdkafka 2.16.1: four members, twelve partitions, session 6 s, a heartbeat each 2 s, on Coterie
and on Kafka 4.3.1. aiokafka: fifty members, two hundred partitions, a heartbeat each 3 s, on
Coterie. Each cell was one run on a loaded machine, in partition-seconds without a reader.

The young groups of these runs sent their heartbeats nearly together, which decides more than the
protocol does; each cell therefore names the beat phase under which the model meets it. Two kinds of
cells are not met and not listed: the orderly stop of a static member (13.7 and 13.3; the model says
19 to 25, because the last commit extends the session) and one join of aiokafka that cost 589.9.
"""

from typing import Any, NamedTuple

from coterie.lab.run import RunOptions, run
from coterie.lab.scenario import Scenario, load_scenario

_SMALL = {"rate": 20, "session_ms": 6_000, "heartbeat_ms": 2_000, "assign_ms": 2}
_QUICK = {"poll_gap_ms": 5, "callback_ms": 1, "callback_partition_ms": 0}


class MeasuredCell(NamedTuple):
    """Runs of real clients.

    Attributes:
        machine, do: the protocol and what happened.
        phase: the beat phase of the model.
        measured: partition-seconds without a reader.
        members, partitions: the sizes.
        poll_gap_ms: how long the application takes.
    """

    machine: str
    do: str
    phase: str
    measured: tuple[float, ...]
    members: int = 4
    partitions: int = 12
    poll_gap_ms: int = 5

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
        return {**settings, **_SMALL} if self.client == "librdkafka" else settings

    def simulated(self, seeds: int) -> list[float]:
        """Return what the model says, sorted, for some seeds."""
        scenario, options = self.scenario(), RunOptions(self.settings())
        outcomes = (run(self.machine, scenario, seed, options) for seed in range(seeds))
        return sorted(outcome.metrics["unowned"] or 0.0 for outcome in outcomes)


SMALL_CELLS = (
    MeasuredCell("eager-3", "join", "drifting", (0.7, 2.5)),
    MeasuredCell("eager-3", "leave", "restarted", (3.2, 5.0)),
    MeasuredCell("eager-3", "crash", "drifting", (23.8, 24.0)),
    MeasuredCell("eager-3", "pause", "drifting", (18.6,)),
    MeasuredCell("eager-3", "pause", "kept", (35.8,)),
    MeasuredCell("static", "join", "restarted", (0.1, 0.2)),
    MeasuredCell("static", "crash", "drifting", (20.6, 19.9)),
    MeasuredCell("static", "pause", "kept", (35.9,)),
    MeasuredCell("static", "pause", "drifting", (22.3,)),
    MeasuredCell("cooperative", "join", "kept", (4.0, 4.0)),
    MeasuredCell("cooperative", "leave", "restarted", (2.9, 1.9)),
    MeasuredCell("cooperative", "crash", "kept", (22.7, 21.1)),
    MeasuredCell("cooperative", "pause", "kept", (20.9, 26.9)),
)
LARGE_CELLS = (
    MeasuredCell("eager-3", "join", "kept", (325.7,), 50, 200),
    MeasuredCell("eager-3", "join", "restarted", (11.8,), 50, 200, 15),
    MeasuredCell("eager-3", "leave", "restarted", (7.6,), 50, 200, 3),
)
