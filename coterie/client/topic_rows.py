"""Topics and settings as rows: what `--json` of the commands and the console have in common."""

from typing import Any

from coterie.client.configs import Setting
from coterie.client.errors import error_name
from coterie.client.topics import Change, Partition, Topic

Row = dict[str, Any]


def summary_row(topic: Topic) -> Row:
    """Return a topic as `topics list` shows it."""
    return {
        "topic": topic.name,
        "topic_id": topic.topic_id,
        "internal": topic.internal,
        "partition_count": len(topic.partitions),
        "replication_factor": topic.replication_factor,
    }


def details_row(topic: Topic, configs: dict[str, str]) -> Row:
    """Return a topic as `topics describe` shows it."""
    return {
        **summary_row(topic),
        "configs": configs,
        "partitions": [partition_row(partition) for partition in topic.partitions],
    }


def partition_row(partition: Partition) -> Row:
    """Return where a partition is."""
    return {
        "partition": partition.partition_index,
        "leader": partition.leader,
        "replicas": partition.replicas,
        "isr": partition.in_sync,
    }


def setting_row(kind: str, name: str, setting: Setting) -> Row:
    """Return a setting of a resource as `configs describe` shows it."""
    return {
        "type": kind,
        "name": name,
        "key": setting.name,
        "value": setting.value,
        "source": setting.source,
        "value_type": setting.type,
        "read_only": setting.read_only,
        "sensitive": setting.sensitive,
        "documentation": setting.documentation,
        "synonyms": [each._asdict() for each in setting.synonyms],
    }


def change_row(change: Change, verb: str) -> Row:
    """Return a result with the keys of `topics create` and `topics delete`.

    Args:
        change: the result.
        verb: created or deleted.
    """
    return {
        "topic": change.name,
        verb: not change.error,
        "error": error_name(change.error) if change.error else None,
    }
