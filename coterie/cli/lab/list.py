"""`coterie lab list`: what can be run."""

import click

from coterie.cli.lab.errors import lab_errors
from coterie.cli.options import json_option
from coterie.cli.output import Column, print_json, print_table


@click.command("list")
@json_option
def command(*, as_json: bool) -> None:
    """List scenarios, machines and settings."""
    from coterie.lab.machines import MACHINES
    from coterie.lab.parameters import Parameters
    from coterie.lab.scenario import load_scenario, scenario_names

    with lab_errors():
        scenarios = [
            {
                "scenario": each.name,
                "members": each.members,
                "partitions": each.partitions,
                "title": each.title,
            }
            for each in map(load_scenario, scenario_names())
        ]
    machines = [
        {"machine": name, "era": spec.era, "summary": spec.summary}
        for name, spec in MACHINES.items()
    ]
    settings = [
        {"setting": name, "default": default}
        for name, default in Parameters._field_defaults.items()
    ]
    if as_json:
        print_json({"scenarios": scenarios, "machines": machines, "settings": settings})
        return
    print_table(
        [Column("SCENARIO", "scenario", 20), Column("MEMBERS", "members", 8),
         Column("PARTITIONS", "partitions", 11), Column("TITLE", "title")],
        scenarios,
    )  # fmt: skip
    click.echo()
    print_table(
        [Column("MACHINE", "machine", 20), Column("ERA", "era", 24), Column("WHAT", "summary")],
        machines,
    )
    click.echo()
    print_table([Column("SETTING", "setting", 24), Column("DEFAULT", "default")], settings)
