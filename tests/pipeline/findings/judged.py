"""How well the rules judge groups whose stories are known.

    python -m tests.pipeline.findings.judged [CLUSTERS]

prints precision and recall of each rule on clusters whose seeds were not used to choose limits. A
finding counts as right if its group has it, with the right subject if the story has one.
"""

import sys
from collections.abc import Iterable
from typing import NamedTuple

from coterie.pipeline.findings.across import all_findings
from coterie.pipeline.findings.of_group import findings_by_group
from coterie.pipeline.findings.retention import OFFSETS_RETENTION_MS
from tests.pipeline.findings.known_stories import END_S, RESTART, cluster
from tests.pipeline.findings.simulated import START_S, tables_of

# Limits are chosen with the first seeds, and judged with the others.
TUNING_SEEDS = range(40)
HELD_OUT_SEEDS = range(10_000, 10_040)


class Score(NamedTuple):
    """How often a rule was right, found something else, and missed something."""

    right: int = 0
    wrong: int = 0
    missed: int = 0

    @property
    def precision(self) -> float:
        """The part of its findings that are right."""
        return self.right / (self.right + self.wrong) if self.right + self.wrong else 1.0

    @property
    def recall(self) -> float:
        """The part of what there is that it finds."""
        return self.right / (self.right + self.missed) if self.right + self.missed else 1.0


def scores(seeds: Iterable[int], *, explain: bool = False) -> dict[str, Score]:
    """Judge the rules on clusters.

    Args:
        seeds: the seed of each cluster.
        explain: whether to print what is wrong or missed.
    """
    found: dict[str, Score] = {}
    for seed in seeds:
        right, wrong, missed = judged(seed)
        if explain and (wrong or missed):
            print(f"{seed}: wrong {sorted(wrong)}, missed {sorted(missed)}")
        for number, pairs in enumerate((right, wrong, missed)):
            for rule, _ in pairs:
                counts = list(found.get(rule, Score()))
                counts[number] += 1
                found[rule] = Score(*counts)
    return found


# A rule and a group, which is "" for findings across groups.
Pair = tuple[str, str]


def judged(seed: int) -> tuple[set[Pair], set[Pair], set[Pair]]:
    """Return what the rules found rightly, wrongly, and not at all in one cluster."""
    told = cluster(seed)
    tables = tables_of(each.group for each in told)
    now_ms = (START_S + END_S) * 1000
    of_groups = findings_by_group(tables, now_ms, OFFSETS_RETENTION_MS)
    findings = all_findings(of_groups, tables["rebalances"], (), now_ms, tables["member_sessions"])
    subjects = {
        (rule, each.group.group_id): subject for each in told for rule, subject in each.expected
    }
    restarted = {each.group.group_id for each in told if "restarted" in each.group.group_id}
    if restarted:
        subjects[RESTART, ""] = None
    right: set[Pair] = set()
    wrong: set[Pair] = set()
    for finding in findings:
        pair = finding.rule, finding.group_id or ""
        is_right = pair in subjects and subjects[pair] in (None, finding.subject)
        if finding.rule == RESTART:
            # It must have most of the groups, and hardly any other.
            named = set(finding.groups)
            is_right = is_right and len(named & restarted) >= 0.8 * max(len(named), len(restarted))
        (right if is_right else wrong).add(pair)
    return right, wrong, set(subjects) - right


def main() -> None:
    """Print the scores of the held-out clusters, or of those that the limits were chosen with."""
    tuning = "--tuning" in sys.argv
    numbers = [int(each) for each in sys.argv[1:] if each.isdigit()]
    seeds = (TUNING_SEEDS if tuning else HELD_OUT_SEEDS)[: numbers[0] if numbers else None]
    found = scores(seeds, explain=tuning)
    print(f"{'rule':24}{'right':>7}{'wrong':>7}{'missed':>8}{'precision':>11}{'recall':>8}")
    for rule, score in sorted(found.items()):
        print(f"{rule:24}{score.right:7}{score.wrong:7}{score.missed:8}", end="")
        print(f"{score.precision:11.2f}{score.recall:8.2f}")
    print(f"{len(seeds)} clusters, seeds {seeds.start} to {seeds.stop - 1}")


if __name__ == "__main__":
    main()
