"""The lab: its scenarios, machines, settings, and the steps of scenarios of one's own."""

from coterie.control.docstrings import entries_in
from coterie.lab.machines import MACHINES
from coterie.lab.parameters import Parameters
from coterie.lab.report.measured_grid import grid_table
from coterie.lab.scenario import load_scenario, scenario_names
from coterie.lab.script import KEYS, STEPS
from documentation.reference.tables import code, prose, table

_HEAD = """# The lab

What `coterie lab` runs, from its tables. [Rebalancing, a history](../rebalancing.md) shows it at
work.

"""
_STEPS = """## Steps

A scenario of your own is a file ([your own case](../rebalancing.md#your-own-case)). Each of its
`[[script]]` has `at_s` and `do`, the name of a step, may have `jitter_s`, and has the keys of its
step.

"""


def lab_page() -> str:
    """Return the page."""
    scenarios = [
        (code(each.name), str(each.members), str(each.partitions), each.title)
        for each in map(load_scenario, scenario_names())
    ]
    machines = [
        (code(name), prose(spec.era), prose(spec.summary)) for name, spec in MACHINES.items()
    ]
    steps = [
        (code(name), " ".join(map(code, step.needs)), " ".join(map(code, step.takes)), step.about)
        for name, step in STEPS.items()
    ]
    about = entries_in(Parameters, "Attributes")
    settings = [
        (code(name), code(str(default)), prose(about[name]))
        for name, default in Parameters._field_defaults.items()
    ]
    return (
        _HEAD
        + "## Scenarios\n\n"
        + table(("scenario", "members", "partitions", "what happens"), scenarios)
        + "## Machines\n\n"
        + table(("machine", "era", "what it does"), machines)
        + _STEPS
        + table(("step", "needs", "may have", "what happens"), steps)
        + table(("key", "meaning"), ((code(key), text) for key, text in KEYS.items()))
        + "## Settings\n\nOf `--set NAME=VALUE`, and of `[set]` in a file.\n\n"
        + table(("setting", "default", "meaning"), settings)
        + f"## Measured\n\n{grid_table()}\n"
    )
