"""A slice of the drawn stories: `python -m tests.story.drawn` judges hundreds of clusters.

The limits are below the measured figures (docs/pipeline.md), because two clusters have few
findings of each rule.
"""

import pytest

pytest.importorskip("pyarrow", reason="needs pip install coterie[pipeline]")

from tests.story.drawn.causes import Truth
from tests.story.drawn.judge import judged, scores

SEEDS = range(20_000, 20_002)
PRECISION = RECALL = 0.9
# What the rules are for: findings that a reader sees first.
RULES = {"rebalance_storm", "expired_member"}


@pytest.mark.slow
def test_independent_causes_in_the_same_minute_are_told_apart() -> None:
    clusters = [judged(seed) for seed in SEEDS]
    found = scores(clusters)
    assert found.keys() >= RULES
    right = sum(each.right for each in found.values())
    assert right >= PRECISION * (right + sum(each.wrong for each in found.values()))
    assert right >= RECALL * (right + sum(each.missed for each in found.values()))


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "migrations"), [(0, 1), (10, 3), (60_006, 1)])
def test_group_that_changes_its_type_is_neither_stormy_nor_unbalanced(
    seed: int, migrations: int
) -> None:
    """Members are stopped and started with another protocol, one after the other."""
    cluster = judged(seed)
    story = " ".join(cluster.story)
    assert story.count("upgrade") + story.count("downgrade") == migrations
    assert not [each for each in cluster.wrong if each.group.startswith("c")]
    assert not [each for each in cluster.missed if each.group.startswith("c")]


def test_judge_sees_what_is_wrong_and_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a ledger of something else, every finding is wrong and the something is missing."""
    lie = Truth("rebalance_storm", "nowhere", "nobody", 0, 1, True, "never happened")
    monkeypatch.setattr("tests.story.drawn.cluster._together", lambda *_, **__: [lie])
    cluster = judged(SEEDS[0])
    assert lie in cluster.missed
    assert cluster.wrong
