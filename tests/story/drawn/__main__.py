"""Draw clusters and judge the findings: `python -m tests.story.drawn [CLUSTERS] [--seed SEED]`."""

import argparse
import time
from concurrent.futures import ProcessPoolExecutor

from tests.story.drawn.judge import Judged, judged, scores

_CLUSTERS = 200
_WORST = 10


def main() -> None:
    """Print the scores and the worst clusters."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("clusters", type=int, nargs="?", default=_CLUSTERS)
    parser.add_argument("--seed", type=int, default=0, help="of the first cluster")
    parser.add_argument("--jobs", type=int, default=1, help="clusters that run at the same time")
    parser.add_argument("--worst", type=int, default=_WORST, help="clusters to print")
    options = parser.parse_args()
    seeds = range(options.seed, options.seed + options.clusters)
    began = time.monotonic()
    if options.jobs > 1:
        with ProcessPoolExecutor(options.jobs) as pool:
            clusters = list(pool.map(judged, seeds))
    else:
        clusters = [judged(seed) for seed in seeds]
    worst = sorted(clusters, key=lambda each: -each.faults)[: options.worst]
    for each in worst:
        if each.faults:
            _print(each)
    print(f"{'rule':24}{'right':>7}{'wrong':>7}{'missed':>8}{'precision':>11}{'recall':>8}")
    for rule, score in scores(clusters).items():
        print(f"{rule:24}{score.right:7}{score.wrong:7}{score.missed:8}", end="")
        print(f"{score.precision:11.2f}{score.recall:8.2f}")
    faultless = sum(not each.faults for each in clusters)
    print(
        f"{len(clusters)} clusters, seeds {seeds.start} to {seeds.stop - 1}, {faultless} without a"
        f" fault, in {time.monotonic() - began:.0f} s"
    )


def _print(judged_: Judged) -> None:
    kept = "group log only" if judged_.log_only else "with journal"
    print(f"cluster {judged_.seed} ({kept}): {judged_.faults} faults")
    for line in sorted(judged_.story):
        print(f"  {line}")
    for word, entries in (("right", judged_.right), ("WRONG", judged_.wrong)):
        for each in entries:
            where = f"{each.group or 'across'} {each.subject or ''}"
            print(f"  {word:7}{each.from_s:7.1f}-{each.to_s:.1f} s {each.rule} {where}")
            print(f"         {each.evidence}")
    for truth in judged_.missed:
        print(f"  MISSED {truth.from_s:7.1f}-{truth.to_s:.1f} s {truth.rule} {truth.group}"
              f" {truth.subject or ''} ({truth.about})")  # fmt: skip
    print()


if __name__ == "__main__":
    main()
