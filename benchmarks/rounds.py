"""The order of the measurements: rounds alternate between brokers, so that drift affects all
equally.

Each row begins with an unmeasured warm-up of each JVM; then follow A B C, A B C, and so on. Every
measurement has a generator process of its own. If a broker does not support a row, it is not tried
again, and the reason is kept in place of the numbers.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from benchmarks.address import Address
from benchmarks.brokers import Broker, Child
from benchmarks.measures import Outcome, Row, Scenario
from benchmarks.scenarios import startup
from benchmarks.session import Job
from coterie.processes import ProcessFailed

# Scenarios have time limits of their own; this one ends a generator that hangs.
GENERATOR_TIMEOUT_S = 300.0
# Some steady scenarios do not heartbeat for their members, whose session timeout is a minute.
LONGEST_DURATION_S = 40.0

# The broker whose code the scenarios without a broker measure.
OURS = "coterie"

# The group names of two runs against one peer must differ, because a run may leave groups behind.
_tags = (f"{os.getpid():x}-{number:04d}" for number in itertools.count())


@dataclass(frozen=True, slots=True)
class Plan:
    """The number of rounds and the times of a run."""

    rounds: int = 3
    duration_s: float = 3.0
    settle_s: float = 0.3
    warmup_s: float = 10.0
    quick: bool = False


@dataclass(slots=True)
class Results:
    """The results of one broker in one row: one outcome for each round, or why there is none."""

    outcomes: list[Outcome] = field(default_factory=list)
    not_available: str | None = None
    generator_failed: bool = False

    def values(self, metric: str) -> list[float]:
        """Return the value of a metric in every round that has it."""
        return [o.numbers[metric] for o in self.outcomes if metric in o.numbers]


# The results by (scenario key, row key) and by the name of the broker.
Table = dict[tuple[str, str], dict[str, Results]]


@dataclass(frozen=True, slots=True)
class Step:
    """One measurement to make, or a warm-up (round 0)."""

    scenario: Scenario
    row: Row
    broker: Broker
    round_number: int

    @property
    def title(self) -> str:
        """The text of the progress bar."""
        turn = f"round {self.round_number}" if self.round_number else "warm-up"
        return f"{self.scenario.key}/{self.row.key} · {self.broker.name} · {turn}"


def takes_part(broker: Broker, scenario: Scenario) -> bool:
    """Return whether a scenario applies to this broker.

    The floor serves heartbeats only, a peer is not started here, and only our own broker has code
    that can be measured without it.
    """
    if scenario.brokerless:
        return broker.name == OURS
    if broker.bare and not scenario.floor:
        return False
    return broker.ours or scenario.run is not None


def steps(scenarios: list[tuple[Scenario, Row]], brokers: list[Broker], plan: Plan) -> list[Step]:
    """Return all measurements in the order in which they are made."""
    return [step for scenario, row in scenarios for step in _steps(scenario, row, brokers, plan)]


def _steps(scenario: Scenario, row: Row, brokers: list[Broker], plan: Plan) -> Iterator[Step]:
    taking_part = [broker for broker in brokers if takes_part(broker, scenario)]
    for broker in taking_part:
        if broker.needs_warming:
            yield Step(scenario, row, broker, 0)
    for round_number in range(1, plan.rounds + 1):
        for broker in taking_part:
            yield Step(scenario, row, broker, round_number)


def measure(
    todo: list[Step], plan: Plan, before: Callable[[Step], None], after: Callable[[Step], None]
) -> Table:
    """Make all measurements.

    Args:
        todo: from `steps`.
        plan: the times of each.
        before, after: called around each measurement, for the progress bar and the tables.
    """
    table: Table = {}
    # In the order of the first round. Warm-ups have another order: only JVMs have one.
    for step in todo:
        if step.round_number:
            row = table.setdefault((step.scenario.key, step.row.key), {})
            row.setdefault(step.broker.name, Results())
    for step in todo:
        result = table[step.scenario.key, step.row.key][step.broker.name]
        before(step)
        if result.not_available is None:
            outcome = _measure(step, plan, result)
            if outcome is not None and step.round_number:
                result.outcomes.append(outcome)
        after(step)
    return table


def _measure(step: Step, plan: Plan, result: Results) -> Outcome | None:
    """Make one measurement; on failure set the reason in `result` and return None."""
    broker = step.broker
    try:
        if isinstance(broker, Child) and step.scenario.run is None:
            return startup.measure(broker)
        if step.scenario.brokerless:
            return _generate(_job(step, plan, Address("127.0.0.1", 0)), result)
        running = broker.start()
    except ProcessFailed as error:
        result.not_available = str(error)
        return None
    try:
        return _generate(_job(step, plan, running.address), result)
    finally:
        broker.stop()


def _job(step: Step, plan: Plan, address: Address) -> Job:
    broker = step.broker
    return Job(
        scenario=step.scenario.key,
        row=step.row.key,
        host=address.host,
        port=address.port,
        pid=address.pid,
        duration_s=plan.duration_s if step.round_number else plan.warmup_s,
        settle_s=plan.settle_s,
        tag=next(_tags),
        inflexible=broker.inflexible,
        bare=broker.bare,
        clean_up=not broker.ours,
        quick=plan.quick,
    )


def _generate(job: Job, result: Results) -> Outcome | None:
    try:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.generator"],
            input=json.dumps(job.as_dict()),
            capture_output=True,
            text=True,
            check=False,
            timeout=GENERATOR_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        result.not_available = f"the generator hung for {GENERATOR_TIMEOUT_S:.0f} s"
        result.generator_failed = True
        return None
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        result.not_available = f"the generator failed: {lines[-1] if lines else done.returncode}"
        result.generator_failed = True
        return None
    answer = json.loads(done.stdout)
    if "not_available" in answer:
        result.not_available = answer["not_available"]
        return None
    return Outcome(**answer)
