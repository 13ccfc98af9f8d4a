"""A sample of the damage: flipped, zeroed, swapped or cut bytes are reported or change nothing."""

import pytest

from tests.crash.campaign import Task, length_of, run
from tests.crash.producers import LATER, STALE


@pytest.mark.parametrize("kind", ["sectors", "flipped"])
@pytest.mark.parametrize("scenario", ["clean_shutdown", "retention"])
def test_damage_is_noticed_or_harmless(kind: str, scenario: str) -> None:
    end = length_of(kind, scenario, flush=True)
    result = run(Task(kind, scenario, True, end, end), sample=3 if kind == "flipped" else 1)
    assert result.failures == []
    outcomes = {outcome for _, outcome in result.outcomes}
    assert outcomes >= {"detected", "equal"}
    assert "tail cut" not in outcomes, "after a clean stop nothing is torn"


@pytest.mark.parametrize("flush", [True, False], ids=["commit", "never"])
def test_stale_files_of_producers_change_nothing(flush: bool) -> None:
    end = length_of(STALE, "producers", flush=flush)
    result = run(Task(STALE, "producers", flush, 0, end), sample=197)
    later = run(Task(LATER, "producers", flush, 0, end))
    assert (result.failures, later.failures) == ([], [])
    assert result.outcomes[STALE, "equal"] > 100
    assert later.outcomes[LATER, "equal"] > 100


@pytest.mark.parametrize("scenario", ["compact", "delete_topic"])
def test_truncated_files_are_noticed_or_harmless(scenario: str) -> None:
    end = length_of("truncated", scenario, flush=True)
    result = run(Task("truncated", scenario, True, end, end), sample=3)
    assert result.failures == []
    assert result.outcomes["truncated", "detected"] > 20
