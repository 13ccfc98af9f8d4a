"""What the model says about a live run: the range of a metric over seeds, for each beat phase."""

from typing import Any, NamedTuple

from coterie.lab.live.settings import live_parameters
from coterie.lab.machines import MACHINES
from coterie.lab.parameters import BEAT_PHASES
from coterie.lab.run import RunOptions, run
from coterie.lab.scenario import Scenario
from coterie.lab.summary import quantile

# Settings of a row that describe the participants and not the workload.
_DESCRIPTIONS = ("client", "software", "broker")
# The timeouts of these groups are those of their broker, which keeps its defaults: a Kafka does not
# take shorter ones.
_OF_THE_BROKER = dict.fromkeys(("consumer", "streams"), ("session_ms", "heartbeat_ms"))
# The members of a live run are small programs: they answer at once, and their callbacks are fast.
_QUICK = {"poll_gap_ms": 5, "callback_ms": 1, "callback_partition_ms": 0, "assign_ms": 2}


class Range(NamedTuple):
    """What 90 % of the simulated runs lie between.

    Attributes:
        phase: the beat phase.
        low, middle, high: the 5 %, 50 % and 95 % quantiles.
    """

    phase: str
    low: float
    middle: float
    high: float

    def has(self, value: float) -> bool:
        """Return whether a measured value is in the range, or within a tenth of it."""
        return self.low * 0.9 <= value <= self.high * 1.1


def simulated_ranges(
    scenario: Scenario, machine: str, settings: dict[str, Any], seeds: int
) -> list[Range]:
    """Return the ranges of partition-seconds without a reader; none for an unknown machine.

    Args:
        scenario: with the script and the sizes of the live run.
        machine: the machine.
        settings: those of the live run.
        seeds: how many runs are made for each phase.
    """
    if machine not in MACHINES:
        return []
    left_out = (*_DESCRIPTIONS, *_OF_THE_BROKER.get(machine, ()))
    wanted = {name: value for name, value in settings.items() if name not in left_out}
    parameters = live_parameters(wanted)
    given = {**_QUICK, **{name: getattr(parameters, name) for name in wanted}}
    plain = scenario._replace(settings={})
    found = []
    for phase in BEAT_PHASES:
        options = RunOptions({**given, "beat_phase": phase})
        values = sorted(
            run(machine, plain, seed, options).metrics["unowned"] or 0.0 for seed in range(seeds)
        )
        low, middle, high = (quantile(values, share) for share in (0.05, 0.5, 0.95))
        found.append(Range(phase, low, middle, high))
    return found
