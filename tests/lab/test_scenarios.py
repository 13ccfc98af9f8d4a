"""The scenarios show what they say: their expectations hold for the medians of three seeds."""

from statistics import median

import pytest

from coterie.lab.machines import MACHINES
from coterie.lab.run import run
from coterie.lab.scenario import Scenario, load_scenario, scenario_names

SEEDS = range(3)


def machines_of(scenario: Scenario) -> list[str]:
    """Return the machines that the expectations of a scenario are about."""
    names = {name for each in scenario.expect for name in (each.left, each.right)} - {""}
    return sorted(names & MACHINES.keys())


@pytest.mark.parametrize("name", scenario_names())
def test_expectations_hold(name: str) -> None:
    scenario = load_scenario(name)
    medians = {}
    for machine in machines_of(scenario):
        runs = [run(machine, scenario, seed).metrics for seed in SEEDS]
        for metric in runs[0]:
            # What never happened is later than anything that did.
            found = [each[metric] for each in runs]
            values = [1e9 if value is None else value for value in found]
            medians[machine, metric] = median(values)
    for each in scenario.expect:
        if {each.left, each.right} - {""} <= MACHINES.keys():
            left = medians[each.left, each.metric]
            right = medians.get((each.right, each.metric), 0.0)
            assert each.holds(left, right), f"{each.text}: {left} and {right}"
