"""The findings of a cluster beside the truth."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.dataset as ds

from coterie.pipeline.engine import LocalEngine
from coterie.pipeline.jobs.run import run
from coterie.pipeline.store import Store
from tests.pipeline.findings.judged import Score
from tests.story.drawn.broker import START_MS
from tests.story.drawn.causes import Truth
from tests.story.drawn.cluster import Cluster

# A finding may begin before its cause or end after it by this: a burst reaches to its neighbours.
SLACK_S = 90.0


_STORMY = ("rebalance_storm", "flapping_member")


class Found(NamedTuple):
    """A finding of the pipeline; times are seconds of the story."""

    rule: str
    group: str
    subject: str | None
    from_s: float
    to_s: float
    evidence: str


class Judged(NamedTuple):
    """A cluster with its right, wrong and missing findings; see `Cluster` for the first fields."""

    seed: int
    log_only: bool
    story: list[str]
    right: list[Found]
    wrong: list[Found]
    missed: list[Truth]

    @property
    def faults(self) -> int:
        """How many findings are wrong or missing."""
        return len(self.wrong) + len(self.missed)


def judged(seed: int) -> Judged:
    """Draw and run a cluster, and judge the findings about it."""
    cluster = Cluster(seed)
    with tempfile.TemporaryDirectory() as made:
        data, output = cluster.run(Path(made)), str(Path(made) / "out")
        run(LocalEngine(), [str(data)], output)
        rows: list[dict[str, Any]] = (
            ds.dataset(Store.reading(output).files("anomalies")).to_table().to_pylist()
        )
    findings = [_found(row) for row in rows]
    right = [each for each in findings if any(_is(each, truth) for truth in cluster.ledger)]
    wrong = [each for each in findings if each not in right]
    missed = [
        truth
        for truth in cluster.ledger
        if truth.is_required and not any(_is(each, truth) for each in right)
    ]
    return Judged(seed, cluster.log_only, cluster.story, right, wrong, missed)


def _found(row: dict[str, Any]) -> Found:
    def seconds(name: str) -> float:
        return float(row[name].timestamp() - START_MS / 1000)

    return Found(
        row["rule"],
        row["group_id"] or "",
        row["subject"],
        seconds("window_start_ts"),
        seconds("window_end_ts"),
        row["evidence"],
    )


def _is(found: Found, truth: Truth) -> bool:
    """Return whether a finding tells this truth."""
    # A client that flaps is part of a storm if there are enough rebalances.
    is_same = found.rule == truth.rule or (found.rule, truth.rule) == _STORMY
    if not is_same or found.group != truth.group:
        return False
    if truth.subject is not None and found.subject != truth.subject:
        # Several members that died at once are one finding, whose sentence names them.
        # A storm of two clients has one of them as subject, and names the other.
        is_named = truth.subject in found.evidence
        if not is_named or (found.subject is not None and found.rule != "rebalance_storm"):
            return False
    return found.from_s <= truth.to_s + SLACK_S and truth.from_s - SLACK_S <= found.to_s


def scores(clusters: Sequence[Judged]) -> dict[str, Score]:
    """Return the score of each rule that found or missed anything."""
    found: dict[str, list[int]] = {}
    for cluster in clusters:
        rules = (
            [each.rule for each in cluster.right],
            [each.rule for each in cluster.wrong],
            [each.rule for each in cluster.missed],
        )
        for number, names in enumerate(rules):
            for rule in names:
                found.setdefault(rule, [0, 0, 0])[number] += 1
    return {rule: Score(*counts) for rule, counts in sorted(found.items())}
