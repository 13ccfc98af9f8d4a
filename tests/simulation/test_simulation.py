"""A part of the simulation that is short enough for every test run.

All invariants hold, everything required occurs, and the same seed gives the same trace.
`python -m tests.simulation --seconds 300` (or `make sim`) runs for longer.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.campaign import Campaign, run

ROOT = Path(__file__).parent.parent.parent

# Storms are short; in so many of them everything that is required occurs.
STORMS = 40


@pytest.mark.parametrize("block", range(6))
def test_profiles_violate_no_invariant(block: int) -> None:
    campaign = Campaign()
    campaign.run_seeds(["profile"], range(block * 4, block * 4 + 4))
    assert campaign.failures == []
    assert campaign.events > 5_000


def test_storms_violate_no_invariant_and_cover_everything() -> None:
    campaign = Campaign()
    campaign.run_seeds(["storm"], range(STORMS))
    assert campaign.failures == []
    assert campaign.coverage.missing() == []


@pytest.mark.parametrize("kind", ["profile", "storm"])
def test_same_seed_gives_the_same_trace(kind: str) -> None:
    first, second, other = run(kind, 7), run(kind, 7), run(kind, 8)
    assert first.digest == second.digest != ""
    assert first.digest != other.digest


def test_trace_does_not_depend_on_string_hashes() -> None:
    traces = set()
    for hash_seed in ("1", "2"):
        command = [sys.executable, "-m", "tests.simulation", "--repeat", "storm", "3"]
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        result = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True
        )
        traces.add(result.stdout)
    assert len(traces) == 1
    assert "trace" in traces.pop()
