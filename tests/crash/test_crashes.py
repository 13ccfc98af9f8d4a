"""A sample of the crashes, short enough for every test run; `make crash` tries all of them.

Every scenario runs in both modes, and some of the crashes after each of its operations are tried.
"""

import pytest

from tests.crash.campaign import Campaign, Task, length_of, run
from tests.crash.many_logs import MANY
from tests.crash.scenarios import SCENARIOS

# One crash in so many is tried: a prime, so that operations differ in which of theirs are tried.
_SAMPLE = {"death": 251, "power": 997}
# Where several logs wait for a sync, there are many times more.
_SAMPLE_OF_MANY = {"death": 997, "power": 7_993}
_MANY = [scenario.__name__ for scenario in MANY]
_MODES = [pytest.param(True, id="commit"), pytest.param(False, id="never")]


@pytest.mark.slow
@pytest.mark.parametrize("flush", _MODES)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_crashes_of_a_scenario(scenario: str, flush: bool) -> None:
    """Nothing acknowledged is lost, and the log agrees with what the coordinator loads."""
    campaign = Campaign()
    length = length_of("death", scenario, flush=flush)
    samples = _SAMPLE_OF_MANY if scenario in _MANY else _SAMPLE
    for kind, sample in samples.items():
        campaign.add(run(Task(kind, scenario, flush, 0, length), sample))
    assert campaign.failures == []
    assert len(campaign.disks) > 1


@pytest.mark.parametrize("flush", _MODES)
@pytest.mark.parametrize("fault", ["EIO", "short write"])
@pytest.mark.parametrize("scenario", ["commit", "delete_topic", "clean_shutdown"])
def test_every_call_fails_in_turn(scenario: str, fault: str, flush: bool) -> None:
    result = run(Task(f"failing {fault}", scenario, flush, 0, 0))
    assert result.failures == []
    assert sum(result.outcomes.values()) > 5


@pytest.mark.slow
@pytest.mark.parametrize("history", ["aar", "aAr"])
def test_every_window_of_compaction(history: str) -> None:
    result = run(Task("window", history, True, 0, 0))
    assert result.failures == []
    assert len(result.disks) > 50


def test_short_reads_and_writes_of_the_kernel() -> None:
    result = run(Task("short calls", "commit", True, 0, 0))
    assert result.failures == []
    assert sum(result.outcomes.values()) > 10
