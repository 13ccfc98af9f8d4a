"""`coterie groups`: the commands for the groups of any Kafka broker.

The tables have the columns of kafka-consumer-groups. The keys of `--json` are listed in
documentation/reference/json_keys.tsv and do not change.
"""

import click

from coterie.cli.broker import broker_options
from coterie.cli.main import LazyCommands


class GroupCommands(LazyCommands):
    """The commands, one in each module of this package."""

    summaries = {
        "list": "List the groups.",
        "describe": "Show offsets and lag, members, or state of groups.",
        "check": "Find what is wrong with groups, with causes and remedies.",
        "history": "Show what happened to a group, and why.",
        "deliveries": "Show what became of the deliveries of a share group.",
        "assign": "Preview the assignment that an assignor would make.",
        "reset-offsets": "Plan or commit new offsets for a group.",
        "delete-offsets": "Delete committed offsets of topics.",
        "remove-members": "Remove members from a group.",
        "delete": "Delete groups that have no members.",
    }
    package = "coterie.cli.groups"


@click.command("groups", cls=GroupCommands)
@broker_options
def command() -> None:
    """List, inspect, reset and delete the consumer groups and share groups of any Kafka broker."""
