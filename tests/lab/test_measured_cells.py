"""What real clients did lies in the lab's range, for a beat phase that is named.

Measured with librdkafka 2.16.1 (4 members, 12 partitions, session 6 s, beat 2 s) on Coterie and on
Kafka 4.3.1, and with aiokafka (50 members, 200 partitions, beat 3 s) on Coterie, in
partition-seconds. Two kinds of cells are outside: the leave of a static member, which the lab makes
longer (docs/rebalancing.md says why), and one join of aiokafka that cost 589.9.
"""

from typing import Any

import pytest

from coterie.lab.run import RunOptions, run
from coterie.lab.scenario import load_scenario

_SMALL = {"rate": 20, "session_ms": 6_000, "heartbeat_ms": 2_000, "assign_ms": 2}
_QUICK = {"poll_gap_ms": 5, "callback_ms": 1, "callback_partition_ms": 0}
# Cells are given with one decimal.
_ROUNDING = 0.1


def share_range(machine: str, sizes: tuple[int, int], settings: dict[str, Any], **step: Any) -> Any:
    """Return what 90 % of the seeds lie between."""
    members, partitions = sizes
    scenario = load_scenario("three-and-one")._replace(
        members=members,
        partitions=partitions,
        form_s=30 if members < 10 else 45,
        script=[{"at_s": 0, **step}],
    )
    seeds = 20 if members < 10 else 10
    found = sorted(
        run(machine, scenario, seed, RunOptions(settings)).metrics["unowned"] or 0
        for seed in range(seeds)
    )
    return found[seeds // 20], found[-1 - seeds // 20]


@pytest.mark.parametrize(
    ("machine", "do", "phase", "measured"),
    [
        ("eager-3", "join", "restarted", [0.2]),
        ("eager-3", "join", "drifting", [0.7, 2.5]),
        ("eager-3", "leave", "restarted", [3.2, 5.0]),
        ("eager-3", "crash", "drifting", [23.8, 24.0]),
        ("eager-3", "pause", "drifting", [18.6]),
        ("eager-3", "pause", "kept", [35.8]),
        ("static", "join", "restarted", [0.2]),
        ("static", "crash", "drifting", [20.6, 19.9]),
        ("static", "pause", "kept", [35.9]),
        ("static", "pause", "drifting", [22.3]),
        ("cooperative", "join", "kept", [4.0, 4.0]),
        ("cooperative", "leave", "restarted", [2.9, 1.9]),
        ("cooperative", "crash", "kept", [22.7, 21.1]),
        ("cooperative", "pause", "kept", [20.9, 26.9]),
    ],
)
def test_librdkafka(machine: str, do: str, phase: str, measured: list[float]) -> None:
    step = {"do": do, **({"s": 15} if do == "pause" else {})}
    low, high = share_range(machine, (4, 12), {**_SMALL, **_QUICK, "beat_phase": phase}, **step)
    for cell in measured:
        assert low - _ROUNDING <= cell <= high + _ROUNDING, (low, high)


@pytest.mark.parametrize(
    ("do", "phase", "poll_gap_ms", "measured"),
    [("join", "kept", 5, 325.7), ("join", "restarted", 15, 11.8), ("leave", "restarted", 3, 7.6)],
)
def test_aiokafka(do: str, phase: str, poll_gap_ms: int, measured: float) -> None:
    settings = {**_QUICK, "poll_gap_ms": poll_gap_ms, "beat_phase": phase}
    low, high = share_range("eager-3", (50, 200), settings, do=do)
    assert low <= measured <= high, (low, high)
