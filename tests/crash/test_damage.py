"""A slice of the damage: what is flipped, zeroed, swapped or cut is told, or changes nothing."""

import pytest

from tests.crash.campaign import Task, length_of, run


@pytest.mark.parametrize("kind", ["sectors", "flipped"])
@pytest.mark.parametrize("story", ["clean_shutdown", "retention"])
def test_damage_is_noticed_or_harmless(kind: str, story: str) -> None:
    end = length_of(kind, story, flush=True)
    result = run(Task(kind, story, True, end, end), sample=3 if kind == "flipped" else 1)
    assert result.failures == []
    outcomes = {outcome for _, outcome in result.outcomes}
    assert outcomes >= {"detected", "equal"}
    assert "tail cut" not in outcomes, "after a clean stop nothing is torn"


@pytest.mark.parametrize("story", ["compact", "delete_topic"])
def test_truncated_files_are_noticed_or_harmless(story: str) -> None:
    end = length_of("truncated", story, flush=True)
    result = run(Task("truncated", story, True, end, end), sample=3)
    assert result.failures == []
    assert result.outcomes["truncated", "detected"] > 20
