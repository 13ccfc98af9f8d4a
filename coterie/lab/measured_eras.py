"""What real consumers of other eras did, and what the model says about the same.

Kafka 0.8.2.2 with ZooKeeper 3.4.6, and RocketMQ 5.4.0, from the jars of Maven Central, on two cores
that others used at the same time. Values of a quiet and of a busy machine differ by up to a half
where the processes themselves need time, and hardly where a timer decides. Each value was one run.

One kind of value is not met: on a machine with twenty runnable processes, 0.75 s passed until the
queues of a killed client of RocketMQ were taken, and 0.04 to 0.06 s on a quieter one. The last
value of `kill -9` under `zookeeper` is that of our port.

RocketMQ's listener reports a queue when it is allocated, so its cells do not contain the 500 ms
until the first pull, which the model calls `start`.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from coterie.lab.outcome import RunOutcome
from coterie.lab.run import RunOptions, run
from coterie.lab.scenario import load_scenario

# One server, and what a request takes there if servers and clients share two cores.
_ZOOKEEPER = {"zk_servers": 1, "zk_lag_ms": 0.0, "zk_operation_us": 700}
_APART = ("ping", "event")


class EraCell(NamedTuple):
    """Runs of real consumers.

    Attributes:
        name: what happened, and what was measured.
        machine: the protocol.
        members, partitions: the sizes before it happened.
        step: the step of the script.
        measured: the values.
        value: takes the same from an outcome of the model.
        settings: of the model.
        runs: how many seeds give the range.
    """

    name: str
    machine: str
    members: int
    partitions: int
    step: dict[str, Any]
    measured: tuple[float, ...]
    value: Callable[[RunOutcome], float]
    settings: dict[str, Any] = {}
    runs: int = 20

    def simulated(self) -> list[float]:
        """Return what the model says, sorted."""
        steps = tuple(self.step.items())
        settings = tuple(self.settings.items())
        sizes = self.members, self.partitions
        return sorted(
            self.value(_outcome(self.machine, *sizes, steps, settings, seed))
            for seed in range(self.runs)
        )


@cache
def _outcome(
    machine: str,
    members: int,
    partitions: int,
    step: tuple[tuple[str, Any], ...],
    settings: tuple[tuple[str, Any], ...],
    seed: int,
) -> RunOutcome:
    """Run a step; several cells are taken from one run."""
    scenario = load_scenario("three-and-one")._replace(
        members=members, partitions=partitions, script=[{"at_s": 0, **dict(step)}]
    )
    return run(machine, scenario, seed, RunOptions(dict(settings)))


def _metric(name: str, divided_by: int = 1) -> Callable[[RunOutcome], float]:
    """Return a metric of an outcome, for each of so many partitions."""
    return lambda outcome: (outcome.metrics[name] or 0.0) / divided_by


def _requests(outcome: RunOutcome) -> float:
    """Return the requests to ZooKeeper without pings."""
    return sum(number for api, number in outcome.apis.items() if api not in _APART)


def _until_allocated(queues: int) -> Callable[[RunOutcome], float]:
    """Return how long each of so many queues belonged to no client."""
    return lambda outcome: (
        sum(seconds for cause, seconds in outcome.causes.items() if cause != "start") / queues
    )


_JOIN, _CRASH = {"do": "join"}, {"do": "crash"}
_PAUSE, _LONG_PAUSE = {"do": "pause", "s": 15}, {"do": "pause", "s": 150}
ERA_CELLS = (
    EraCell("the 31st joins: attempts", "zookeeper", 30, 60, _JOIN, (31, 31),
            _metric("attempts"), _ZOOKEEPER, 1),
    EraCell("the 31st joins: requests", "zookeeper", 30, 60, _JOIN, (1_696, 1_724),
            _requests, _ZOOKEEPER, 1),
    EraCell("kill -9: partition-seconds", "zookeeper", 3, 6, _CRASH,
            (13.6, 16.7, 15.9, 14.6, 18.1, 13.8), _metric("unowned"), _ZOOKEEPER),
    EraCell("pause of 15 s: partition-seconds", "zookeeper", 3, 6, _PAUSE,
            (13.5, 14.9, 15.3, 16.7), _metric("unowned"), _ZOOKEEPER),
    EraCell("pause of 15 s: read by two", "zookeeper", 3, 6, _PAUSE, (2.4, 3.3, 3.0, 3.6),
            _metric("double"), _ZOOKEEPER),
    EraCell("one joins: seconds of a queue", "rocketmq-5", 1, 8, _JOIN, (0.9, 1.0, 0.98),
            _until_allocated(4)),
    EraCell("kill -9: seconds of a queue", "rocketmq-5", 3, 8, _CRASH, (0.064, 0.036, 0.043),
            _until_allocated(2)),
    EraCell("long pause: seconds of a queue", "rocketmq-5", 2, 8, _LONG_PAUSE,
            (137.4, 120.0, 131.9, 131.9, 132.1), _until_allocated(4)),
    EraCell("kill -9: seconds of a queue", "rocketmq-ordered", 3, 6, _CRASH, (52.6,),
            _metric("unowned", 2)),
)  # fmt: skip
