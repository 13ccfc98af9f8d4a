"""Every operation that changes files, crossed with every other.

A pair is the first operation, then the second, on a broker whose write-ahead file has records of
closed segments; where the first has steps, also the second between two of them. Each pair runs
under several settings that decide when files change, and every crash in it is tried. A pair's
scenario is named `FIRST+SECOND+WHEN+SETTINGS`, for `python -m tests.crash --repeat`.
"""

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

from tests.crash.node import Bounds
from tests.crash.operations import (
    BY_NAME,
    OPERATIONS,
    STEP_MS,
    Between,
    FileOperation,
    Story,
    prepare,
)
from tests.crash.scenario_run import Recording, ScenarioRun

# The second operation comes after the first, after the first step of it, or when a cleaning has
# begun to replace segments.
AFTER, WITHIN, SWAPPING = "after", "within", "swapping"

# Segments hold a turn or two, so each of the lags ends within the part that was just written.
BOUNDS = {
    "plain": Bounds(),
    "min-lag": Bounds(min_compaction_lag_ms=3 * STEP_MS, segment_bytes=500),
    "max-lag": Bounds(
        max_compaction_lag_ms=20 * STEP_MS, min_cleanable_ratio=1.0, segment_ms=STEP_MS
    ),
    "both-lags": Bounds(
        min_compaction_lag_ms=3 * STEP_MS,
        max_compaction_lag_ms=2 * STEP_MS,
        min_cleanable_ratio=1.0,
        segment_bytes=500,
    ),
    "little-dirt": Bounds(min_cleanable_ratio=0.01, segment_bytes=500),
    "small-segments": Bounds(segment_bytes=250),
    "small-retention": Bounds(segment_bytes=300, retention_bytes=1),
}
# The flusher has one thread, so no file is settled while a frame is written. And the broker of the
# tests answers a turn as a whole, so within one nothing is given up, and no leader is answered.
_IMPOSSIBLE_WITHIN = {
    ("write-ahead", "settle"),
    ("write-ahead", "take-over"),
    ("write-ahead", "migration"),
}
_POWER_WAS_LOST = "power-recovery"
# The boot before the loss of power that a story contains.
_EARLIER_BOOT = "boot 0"


class Pair(NamedTuple):
    """Two operations, when the second one comes, and the settings."""

    first: FileOperation
    second: FileOperation
    when: str
    bounds: str

    @property
    def name(self) -> str:
        """The name of its scenario."""
        return f"{self.first.name}+{self.second.name}+{self.when}+{self.bounds}"

    @property
    def needs_flush(self) -> bool:
        """Whether it only exists with `--flush commit`."""
        return self.first.needs_flush or self.second.needs_flush


def is_pair(scenario: str) -> bool:
    """Return whether a scenario is one of these."""
    return scenario.count("+") == 3


def pair_of(name: str) -> Pair:
    """Return the pair with a scenario's name."""
    first, second, when, bounds = name.split("+")
    return Pair(BY_NAME[first], BY_NAME[second], when, bounds)


def pairs(*bounds: str) -> Iterator[Pair]:
    """Yield every pair under some settings, by default all."""
    for first, second in product(OPERATIONS, OPERATIONS):
        whens = [AFTER]
        is_possible = (first.name, second.name) not in _IMPOSSIBLE_WITHIN
        if first.has_steps and not second.restarts and second is not first and is_possible:
            whens.append(WITHIN)
            if first.name == "clean":
                whens.append(SWAPPING)
        for when, name in product(whens, bounds or BOUNDS):
            yield Pair(first, second, when, name)


def record_pair(name: str, *, flush: bool) -> Recording:
    """Do the two operations of a pair; `marks` say where each of them begins, and the end."""
    pair = pair_of(name)
    run = ScenarioRun(flush=flush, bounds=BOUNDS[pair.bounds])
    if _POWER_WAS_LOST in (pair.first.name, pair.second.name):
        run.recorder.boot = _EARLIER_BOOT
    story = Story(run)
    prepare(story)
    run.mark()
    if pair.when == AFTER:
        pair.first.run(story, ())
        run.mark()
        pair.second.run(story, ())
    else:
        inner = _Within(story, pair)
        pair.first.run(story, inner.between)
        assert inner.is_done, f"{pair.name}: there was no such moment"
    run.mark()
    operations = run.recorder.operations
    return Recording(name, flush, run.base, operations, run.history, tuple(run.marks))


class _Within:
    """The second operation of a pair, at a moment within the first."""

    # More than a cleaning has steps.
    _MOMENTS = 200

    def __init__(self, story: Story, pair: Pair) -> None:
        self._story = story
        self._pair = pair
        self.is_done = False

    @property
    def between(self) -> Between:
        """What the first operation calls between its steps."""
        return [self._try] * (self._MOMENTS if self._pair.first.name == "clean" else 1)

    def _try(self) -> None:
        if self.is_done or (self._pair.when == SWAPPING and not self._is_swapping()):
            return
        self.is_done = True
        self._story.run.mark()
        self._pair.second.run(self._story, ())

    def _is_swapping(self) -> bool:
        log = self._story.node.log_of_groups
        names = self._story.run.recorder.list(log.directory)
        return any(name.endswith(".log.swap") for name in names)
