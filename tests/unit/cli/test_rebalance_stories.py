"""What is known of each rebalance of a group that was upgraded, whose numbers come twice."""

from typing import Any

from coterie.cli.pipeline.rebalance_stories import rebalance_stories
from coterie.pipeline.report.history import CompletedGeneration


def row(kind: str, trigger: str, before: int | None, to: int, began: int, end: int) -> Any:
    return {
        "group_type": kind, "trigger": trigger, "from_generation": before, "to_generation": to,
        "generations": 1, "started_ts": began, "completed_ts": end, "joined": [], "left": [],
    }  # fmt: skip


def test_epoch_that_has_the_number_of_a_generation_is_not_taken_for_it() -> None:
    owned = [("t", 0), ("t", 1)]
    tables: dict[str, list[Any]] = {
        "rebalances": [
            row("classic", "join", None, 1, 10, 20),
            row("consumer", "upgrade", None, 1, 50, 50),
            row("consumer", "join", 1, 2, 50, 90),
        ],
        "ownership": [],
        "member_sessions": [],
        "epoch_bumps": [{"epoch": 1, "at_ts": 50}, {"epoch": 2, "at_ts": 50}],
        "epoch_handovers": [{"epoch": 2, "asked_ts": 50}],
    }
    generations = [CompletedGeneration(1, 20, {"m": owned})]
    classic, upgrade, join = rebalance_stories(tables, [], generations)
    assert [(each.generation, each.at_ms) for each in classic.steps] == [(1, 20)]
    assert [(each.generation, each.at_ms) for each in upgrade.steps] == [(1, 50)]
    assert [(each.generation, each.at_ms) for each in join.steps] == [(2, 90)]
    # Both began at the same time.
    assert [each["epoch"] for each in upgrade.bumps] == [1]
    assert [each["epoch"] for each in join.bumps] == [2]
    assert not upgrade.handovers
    assert join.handovers == tables["epoch_handovers"]
