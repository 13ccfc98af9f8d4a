"""Changes of transactions: abort one by its id, or a hanging one in a partition."""

from collections.abc import Mapping
from typing import Any

from coterie.client.cluster import Cluster
from coterie.client.errors import ClientError
from coterie.client.producers import abort_in_partition, open_transactions
from coterie.client.transactions import describe_transactions, terminate_transaction
from coterie.console.changes import fields as f
from coterie.console.changes.plan import (
    Plan,
    Refusal,
    Row,
    arguments,
    command_line,
    refusal_of,
)
from coterie.console.changes.verb import Verb

_ONGOING = "Ongoing"


def _plan_abort(cluster: Cluster, fields: Mapping[str, Any]) -> Plan:
    name = fields["transactional_id"]
    command = command_line("transactions", "terminate", *arguments([name]))
    title = f"Abort the open transaction of {name}, and fence its producer."
    try:
        coordinator_id, state = describe_transactions(cluster, [name])[name]
    except ClientError as error:
        return Plan(title, [], command, error.cause, [], [refusal_of(name, error)])
    row = {
        "transactional_id": name,
        "coordinator_id": coordinator_id,
        "producer_id": state.producer_id,
        "producer_epoch": state.producer_epoch,
        "state": state.transaction_state,
        "start_ms": max(state.transaction_start_time_ms, 0) or None,
        "partitions": {each.topic: each.partitions for each in state.topics},
    }
    refused = []
    if state.transaction_state != _ONGOING:
        cause = f"No transaction of '{name}' is open: its state is {state.transaction_state}."
        refused.append(Refusal(name, cause))
    warnings = ["Its producer fails at its next request, if it still runs."]
    targets = [] if refused else [name]
    # Partitions are added to an open transaction all the time.
    guard = {key: value for key, value in row.items() if key != "partitions"}
    return Plan(title, [row], command, guard, targets, refused, warnings)


def _abort(cluster: Cluster, shown: Plan) -> list[Row]:
    (name,) = shown.targets
    try:
        found = terminate_transaction(cluster, name)
    except ClientError as error:
        return [{"transactional_id": name, "terminated": False, "error": error.cause}]
    return [{"transactional_id": name, **found._asdict(), "terminated": True, "error": None}]


def _plan_abort_hanging(cluster: Cluster, fields: Mapping[str, Any]) -> Plan:
    topic, index, start = fields["topic"], fields["partition"], fields["start_offset"]
    found = [
        each for each in open_transactions(cluster, [(topic, index)]) if each.start_offset == start
    ]
    keys = ("producer_id", "producer_epoch", "coordinator_epoch", "start_offset")
    rows = [
        {"topic": topic, "partition": index, **{key: getattr(each, key) for key in keys}}
        for each in found
    ]
    cause = f"No transaction is open there that begins at offset {start}."
    words = ("--topic", topic, "--partition", index, "--start-offset", start)
    return Plan(
        f"Abort the transaction that begins at offset {start} of {topic}-{index}, by force.",
        rows,
        command_line("transactions", "abort", *words),
        rows,
        list(found),
        [] if found else [Refusal(f"{topic}-{index}", cause)],
        ["Do this only to a transaction that hangs: its coordinator is not asked."],
        confirm=f"{topic}-{index}" if found else None,
    )


def _abort_hanging(cluster: Cluster, shown: Plan) -> list[Row]:
    (found,) = shown.targets
    row = dict(shown.rows[0])
    try:
        abort_in_partition(
            cluster,
            found.partition,
            found.producer_id,
            found.producer_epoch,
            found.coordinator_epoch,
        )
    except ClientError as error:
        return [{**row, "aborted": False, "error": error.cause}]
    return [{**row, "aborted": True, "error": None}]


VERBS = (
    Verb(
        "abort-transaction",
        "Abort the open transaction of a transactional id, and fence its producer.",
        (f.name("transactional_id", "The id."),),
        _plan_abort,
        _abort,
    ),
    Verb(
        "abort-hanging-transaction",
        "Abort a transaction in one partition by force; readers go on behind it.",
        (
            f.name("topic", "The topic."),
            f.number("partition", "The partition.", 0, f.INT32, is_required=True),
            f.number("start_offset", "The first offset of the transaction.", is_required=True),
        ),
        _plan_abort_hanging,
        _abort_hanging,
    ),
)
