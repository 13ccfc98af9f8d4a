"""`coterie groups list --lag`: a line for each group, with the totals of its partitions."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from coterie.cli.groups.looks import looks_at
from coterie.cli.groups.offset_rows import LAG, RATES, catch_up_text
from coterie.cli.output import (
    Column,
    Row,
    is_for_people,
    note,
    print_json,
    print_table,
    state_style,
)
from coterie.client.cluster import Cluster
from coterie.client.group_totals import totals_row
from coterie.client.groups import TYPES, describe_groups, list_groups
from coterie.client.names import counted
from coterie.client.progress import Sample, take_sample


class _Look(NamedTuple):
    """All groups at one time."""

    rows: list[Row]
    sample: Sample


def list_totals(
    cluster: Cluster, states: Sequence[str], types: Sequence[str], interval_s: float | None
) -> list[Row]:
    """Return a row for each listed group.

    Args:
        cluster: the cluster.
        states, types: filters, as for `list_groups`.
        interval_s: the seconds between the two looks that rates are made of; None for no rates.
    """

    def look(before: _Look | None) -> _Look:
        listed = list_groups(cluster, states, types)
        known = [each.group_id for each in listed if each.type in TYPES]
        described = {n: g for n, g in describe_groups(cluster, known).items() if g.exists}
        sample = take_sample(cluster, described.values())
        earlier = before.sample if before else None
        rows = [
            {
                "group": each.group_id,
                "type": each.type,
                "protocol_type": each.protocol_type,
                "state": each.state,
                **totals_row(described.get(each.group_id), earlier, sample),
            }
            for each in listed
        ]
        return _Look(rows, sample)

    (seen,) = looks_at(look, interval_s, watch=False)
    return seen.rows


def print_totals(rows: list[Row], *, as_json: bool, verbose: bool) -> None:
    """Print the rows as JSON or as a table."""
    if as_json:
        print_json(rows)
        return
    with_rates = any(row["produced_per_s"] is not None for row in rows)
    for row in rows:
        row["catch_up"] = catch_up_text(row["lag"], row["lag_growth_per_s"], row["produced_per_s"])
    people = is_for_people()
    columns = [
        Column("GROUP", "group", 25),
        Column("STATE", "state", 20, style=state_style),
        *([Column("TYPE", "type"), Column("PROTOCOL", "protocol_type")] if verbose else []),
        Column("MEMBERS", "member_count", 8, number=True),
        Column("PARTITIONS", "partition_count", 11, number=True),
        Column(
            "WITHOUT-COMMIT", "uncommitted_count", short="NO COMMIT", number=True, text=_some_text
        )
        if people
        else Column("WITHOUT-COMMIT", "uncommitted_count"),
        LAG,
        *((*RATES, Column("CATCH-UP", "catch_up")) if with_rates else ()),
    ]
    print_table(columns, rows)
    if people:
        note(count_of_states(rows))


def _some_text(value: object) -> str:
    """Return a count as text; none is not worth a column."""
    return str(value) if value else "-"


def count_of_states(rows: Sequence[Row]) -> str:
    """Return how many groups there are, and how many in each state."""
    states = Counter(row["state"] for row in rows)
    counts = ", ".join(f"{count} {state}" for state, count in states.most_common())
    return counted(len(rows), "group") + (f": {counts}" if counts else "")
