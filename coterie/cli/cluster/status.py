"""`coterie cluster status`: the brokers, and what each leads and coordinates.

It asks a control port if one is named, and else any Kafka. The keys of `--json` are listed in
documentation/reference/json_keys.tsv.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import click

from coterie.cli.broker import broker_options, connected, names_bootstrap
from coterie.cli.cluster.port import ask, control_port, location_options
from coterie.cli.options import json_option
from coterie.cli.output import Column, Row, assignment_text, note, print_json, print_table
from coterie.client.cluster_state import describe_cluster
from coterie.client.names import printable
from coterie.protocol.topic_names import JOURNAL_TOPIC

_STATE_STYLES = {"running": "green", "paused": "yellow", "down": "red", "unreachable": "red"}


def _style(state: Any) -> str:
    return _STATE_STYLES.get(str(state), "")


def _own_left_out(leads: Mapping[str, Sequence[int]]) -> str:
    """Return the partitions of users' topics as text."""
    return assignment_text(
        {
            topic: indices
            for topic, indices in leads.items()
            if not topic.startswith("__") and topic != JOURNAL_TOPIC
        }
    )


def _names(names: Sequence[str] | None) -> str:
    return ",".join(map(printable, names or ())) or "-"


_COLUMNS = [
    Column("BROKER", "broker", 6, number=True),
    Column("ADDRESS", "address", 21),
    Column("STATE", "state", 11, style=_style),
    Column("LIVE", "live", 4, lambda live: "yes" if live else "no"),
    Column("LEADS", "leads", 20, _own_left_out),
    Column("COORDINATES", "groups", 20, _names),
]


@click.command("status")
@json_option
@broker_options
@location_options
def command(*, as_json: bool) -> None:
    """Show the brokers of a cluster: which run, what each leads, and which groups it coordinates.

    A control port shows what is so; any Kafka with --bootstrap-server shows what its brokers know.
    LIVE says whether the other brokers take it for alive. Topics of the brokers themselves are only
    in --json.
    """
    context = click.get_current_context()
    if not names_bootstrap(context) and control_port(context) is not None:
        found = _of_control_port()
    else:
        found = _of_kafka()
    if as_json:
        print_json(found)
        return
    print_table(_COLUMNS, found["brokers"])
    if found["leaderless"]:
        note(f"Without a leader: {assignment_text(found['leaderless'])}")


def _of_control_port() -> Row:
    state = ask("GET", "cluster")
    return {
        "controller": state["controller_id"],
        "metadata_delay_ms": state["metadata_delay_ms"],
        "brokers": [_row(each) for each in state["brokers"]],
        "leaderless": state["leaderless"],
    }


def _of_kafka() -> Row:
    with connected() as cluster:
        state = describe_cluster(cluster)
    return {
        "controller": state.controller_id,
        "metadata_delay_ms": None,
        "brokers": [_row(each._asdict()) for each in state.brokers],
        "leaderless": state.leaderless,
    }


def _row(broker: Mapping[str, Any]) -> Row:
    return {
        "broker": broker["node_id"],
        "address": str(broker["address"]),
        "state": broker["state"],
        "live": broker["is_live"],
        "leads": broker["leads"],
        "groups": broker["groups"],
        "transactional_ids": broker["transactional_ids"],
    }
