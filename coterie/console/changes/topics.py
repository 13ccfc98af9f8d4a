"""Changes of topics: create and delete them, and produce a record."""

from collections.abc import Mapping
from typing import Any

from coterie.client.cluster import Cluster
from coterie.client.errors import ClientError, Refused
from coterie.client.names import counted
from coterie.client.offsets import EARLIEST, LATEST, partition_offsets
from coterie.client.producing import FORMATS, content_of, produce_record
from coterie.client.readers import groups_of_topics
from coterie.client.topic_rows import change_row
from coterie.client.topics import (
    BROKER_DEFAULT,
    Topic,
    create_topic,
    delete_topics,
    describe_topics,
)
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
from coterie.server.network import http_errors

# What a replication factor has at most: an int16.
_INT16 = (1 << 15) - 1


def _plan_create(cluster: Cluster, fields: Mapping[str, Any]) -> Plan:
    name, configs = fields["topic"], fields.get("configs", {})
    partitions = fields.get("partitions", BROKER_DEFAULT)
    replicas = fields.get("replication_factor", BROKER_DEFAULT)
    asked = create_topic(cluster, name, partitions, replicas, configs, dry_run=True)
    refused = []
    if asked.error:
        error = Refused(asked.error, f"Topic '{name}' would not be created", asked.message)
        refused.append(refusal_of(name, error))
    words: list[object] = ["topics", "create"]
    words += ["--partitions", partitions] if partitions > 0 else []
    words += ["--replication-factor", replicas] if replicas > 0 else []
    words += [word for key, value in configs.items() for word in ("--config", f"{key}={value}")]
    words += arguments([name])
    row = {
        "topic": name,
        "partition_count": partitions if partitions > 0 else None,
        "replication_factor": replicas if replicas > 0 else None,
        "configs": configs,
        "created": False,
    }
    return Plan(
        f"Create topic {name}.",
        [row],
        command_line(*words),
        asked.error,
        [] if refused else [(name, partitions, replicas, configs)],
        refused,
    )


def _create(cluster: Cluster, shown: Plan) -> list[Row]:
    return [change_row(create_topic(cluster, *shown.targets[0]), "created")]


def _plan_delete(cluster: Cluster, fields: Mapping[str, Any]) -> Plan:
    names = list(dict.fromkeys(fields["topics"]))
    described = describe_topics(cluster, names)
    refused = [
        refusal_of(each.name, Refused(each.error, f"Topic '{each.name}'"))
        for each in described
        if each.error
    ]
    refused += [
        Refusal(each.name, "It is a topic of the broker itself.", "Leave it.")
        for each in described
        if not each.error and each.internal
    ]
    found = [each for each in described if not each.error and not each.internal]
    targets = [each.name for each in found]
    readers = groups_of_topics(cluster, targets) if targets else {}
    rows = [_loss(cluster, each, readers[each.name]) for each in found]
    lost = [
        f"{each['topic']}: {counted(each['partition_count'], 'partition')} with"
        f" {counted(each['records'], 'record')}"
        + (f", which {', '.join(each['groups'])} read." if each["groups"] else ".")
        for each in rows
    ]
    return Plan(
        f"Delete {counted(len(targets), 'topic')} with all records.",
        rows,
        command_line("topics", "delete", *arguments(targets or names)),
        [[each.topic_id, len(each.partitions), readers[each.name]] for each in found],
        targets,
        refused,
        lost,
        confirm=targets[0] if len(targets) == 1 else counted(len(targets), "topic"),
    )


def _loss(cluster: Cluster, topic: Topic, groups: list[str]) -> Row:
    """Return what is lost with a topic; of `records` compacted ones and markers count, too."""
    keys = [(topic.name, each.partition_index) for each in topic.partitions]
    without: dict[tuple[str, int], int] = {}
    begins = partition_offsets(cluster, dict.fromkeys(keys, EARLIEST), without)
    ends = partition_offsets(cluster, dict.fromkeys(begins, LATEST), without)
    return {
        "topic": topic.name,
        "partition_count": len(topic.partitions),
        "records": sum(ends[each] - begins[each] for each in ends),
        "groups": groups,
        "deleted": False,
    }


def _delete(cluster: Cluster, shown: Plan) -> list[Row]:
    return [change_row(each, "deleted") for each in delete_topics(cluster, shown.targets)]


def _plan_produce(cluster: Cluster, fields: Mapping[str, Any]) -> Plan:
    name, index = fields["topic"], fields.get("partition", 0)
    key = _content("key", fields, "null")
    value = _content("value", fields, "text")
    headers = [(each, text.encode()) for each, text in fields.get("headers", {}).items()]
    (topic,) = describe_topics(cluster, [name])
    refused = []
    if topic.error:
        refused.append(refusal_of(name, Refused(topic.error, f"Topic '{name}'")))
    elif topic.internal:
        refused.append(Refusal(name, "Only the broker writes to this topic."))
    elif index not in {each.partition_index for each in topic.partitions}:
        most = len(topic.partitions) - 1
        refused.append(
            Refusal(f"{name}-{index}", f"There is no partition {index}: they are 0 to {most}.")
        )
    row = {
        "topic": name,
        "partition": index,
        "key_bytes": None if key is None else len(key),
        "value_bytes": None if value is None else len(value),
        "headers": len(headers),
    }
    return Plan(
        f"Append a record to partition {index} of topic {name}.",
        [row],
        _produce_command(name, index, fields),
        [topic.topic_id, topic.error],
        [] if refused else [((name, index), key, value, headers)],
        refused,
        [] if value is not None else ["A null value deletes the key when the log is compacted."],
    )


def _produce_command(name: str, index: int, fields: Mapping[str, Any]) -> str:
    words: list[object] = ["topics", "produce", "--partition", index]
    for field in ("key", "value"):
        # A value of its own may begin with a hyphen.
        words += [f"--{field}={fields[field]}"] if field in fields else []
        kind = fields.get(f"{field}_format", "text")
        words += [f"--{field}-format", kind] if kind != "text" else []
    words += [f"--header={each}={text}" for each, text in fields.get("headers", {}).items()]
    return command_line(*words, *arguments([name]))


def _content(field: str, fields: Mapping[str, Any], absent: str) -> bytes | None:
    """Return a key or a value as bytes.

    Raises:
        http_errors.Refused: it does not have its format.
    """
    kind = fields.get(f"{field}_format", absent if field not in fields else "text")
    try:
        return content_of(str(fields.get(field, "")), kind)
    except ValueError as error:
        raise http_errors.Refused("BadRequest", f"{field}: {error}") from None


def _produce(cluster: Cluster, shown: Plan) -> list[Row]:
    ((partition, key, value, headers),) = shown.targets
    row = {"topic": partition[0], "partition": partition[1]}
    try:
        offset = produce_record(cluster, partition, key, value, headers)
    except ClientError as error:
        return [{**row, "offset": None, "error": error.cause}]
    return [{**row, "offset": offset, "error": None}]


VERBS = (
    Verb(
        "create-topic",
        "Create a topic.",
        (
            f.name("topic", "Its name."),
            f.number("partitions", "How many; the broker's num.partitions.", 1, f.INT32),
            f.number("replication_factor", "Replicas; the broker's default.", 1, _INT16),
            f.texts_by_name("configs", "Its settings."),
        ),
        _plan_create,
        _create,
    ),
    Verb(
        "delete-topics",
        "Delete topics and all their records.",
        (f.names("topics", "The topics."),),
        _plan_delete,
        _delete,
    ),
    Verb(
        "produce",
        "Append a record to a partition.",
        (
            f.name("topic", "The topic."),
            f.number("partition", "The partition; 0 by default.", 0, f.INT32),
            f.text("key", "The key; none for null."),
            f.choice("key_format", "How the key is written.", *FORMATS),
            f.text("value", "The value; empty by default."),
            f.choice("value_format", "How the value is written.", *FORMATS),
            f.texts_by_name("headers", "Headers by name."),
        ),
        _plan_produce,
        _produce,
    ),
)
