"""Runs: the same again for a seed, invariants, planted faults, and one script for all machines."""

import subprocess
import sys

import pytest

from coterie.lab.kernel import Violation
from coterie.lab.machines import MACHINES
from coterie.lab.run import Run, RunOptions, run
from coterie.lab.scenario import Scenario, load_scenario
from tests.lab.planted import PLANTS
from tests.planting import planted

_DIGESTS = """
from tests.lab.test_run import digests
print("\\n".join(digests()))
"""


def digests() -> list[str]:
    """Return the digests of some runs of each machine."""
    scenario = load_scenario("three-and-one")
    return [run(name, scenario, seed).digest for name in MACHINES for seed in (1, 2)]


def test_another_process_with_another_hash_seed_gives_the_same_digests() -> None:
    other = subprocess.run(
        [sys.executable, "-c", _DIGESTS],
        env={"PYTHONHASHSEED": "123", "PATH": "/usr/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert other.stdout.split() == digests()


def test_another_seed_gives_another_run() -> None:
    scenario = load_scenario("three-and-one")
    assert run("eager-3", scenario, 1).digest != run("eager-3", scenario, 2).digest


def test_the_script_is_the_same_for_every_machine() -> None:
    scenario = load_scenario("rolling-deploy")
    scripts = {tuple(Run(name, scenario, 3, RunOptions()).events) for name in MACHINES}
    assert len(scripts) == 1


def test_causes_add_up_to_the_time_without_a_reader() -> None:
    outcome = run("cooperative", load_scenario("flapping"), 1)
    assert sum(outcome.causes.values()) == pytest.approx(outcome.metrics["unowned"])
    assert outcome.causes["undetected"] > 0


def test_unowned_intervals_are_those_of_the_metric() -> None:
    outcome = run("eager-3", load_scenario("three-and-one"), 1)
    gaps = sum(each.to_us - each.from_us for each in outcome.intervals if each.owner is None)
    assert gaps / 1e6 == pytest.approx(outcome.metrics["unowned"])


@pytest.mark.parametrize(
    ("fault", "machine", "invariant"),
    [
        ("handover-at-once", "cooperative", "one-owner"),
        ("revoke-after-join", "eager-3", "joins-with-nothing"),
        ("forgotten-stop", "eager-3", "ledger"),
        ("lost-timer", "cooperative", "one-reader"),
        ("lost-timer", "consumer", "one-reader"),
    ],
)
def test_planted_fault_is_found(fault: str, machine: str, invariant: str) -> None:
    chosen = load_scenario("three-and-one")
    if fault == "lost-timer":
        chosen = chosen._replace(script=[*chosen.script, {"at_s": 60, "do": "leave", "pod": 1}])
    found = set()
    for seed in range(3):
        run(machine, chosen, seed)
        try:
            with planted(PLANTS[fault]):
                run(machine, chosen, seed)
        except Violation as violation:
            found.add(violation.invariant)
    assert found == {invariant}


def test_planted_script_of_the_machine_is_found() -> None:
    scenario = load_scenario("three-and-one")
    with planted(PLANTS["script-from-machine"]):
        scripts = {run(name, scenario, 1).script for name in ("eager-3", "cooperative")}
    assert len(scripts) == 2, "pairs of runs with different scripts cannot be compared"


def pace(members: int, partitions: int, do: str, **keys: object) -> Scenario:
    """Return a scenario of one step."""
    scenario = load_scenario("three-and-one")
    return scenario._replace(
        members=members, partitions=partitions, script=[{"at_s": 0, "do": do, **keys}]
    )


def test_rolling_deploy_of_static_members_moves_nothing() -> None:
    scenario = load_scenario("rolling-deploy")._replace(members=6, partitions=12)
    outcome = run("static", scenario, 1)
    assert (outcome.metrics["moves"], outcome.metrics["generations"]) == (0, 0)
    # Each partition stands still while its pod is down: eight seconds and the start.
    assert 12 * 8 < (outcome.metrics["unowned"] or 0) < 12 * 9


def test_static_members_with_new_names_are_not_static() -> None:
    scenario = pace(6, 12, "restart", down_s=4, keep_ids=False)
    assert run("static", scenario, 1).metrics["generations"] != 0


def test_records_are_delivered_once_without_faults() -> None:
    outcome = run("eager-3", load_scenario("rolling-deploy"), 1)
    assert (outcome.metrics["duplicates"], outcome.metrics["lost"]) == (0, 0)


def test_more_duplicates_with_a_longer_commit_interval() -> None:
    duplicates = [
        sum(
            run(
                "eager-3", pace(6, 24, "crash"), seed, RunOptions({"commit_ms": commit_ms})
            ).metrics["duplicates"]
            or 0
            for seed in range(6)
        )
        for commit_ms in (500, 20_000)
    ]
    # Ten records a second in the four partitions of the member, and half of the interval.
    assert duplicates[0] < 6 * 4 * 10 * 0.5
    assert 5 * duplicates[0] < duplicates[1] < 6 * 4 * 10 * 20
