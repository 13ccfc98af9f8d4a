"""What a tool of Kafka and a command of ours print, in one form, so that they can be compared."""

import json
import re
from collections.abc import Callable
from typing import Any

Keys = tuple[str | None, ...]

# The names of the types of entities in our rows and in the lines of kafka-configs.
_ENTITY_TYPES = {"user": "user-principal", "client-id": "client-id", "ip": "ip"}
# The sources of settings that kafka-configs calls dynamic, by the type of the resource.
_DYNAMIC = {
    "topics": ("topic",),
    "brokers": ("broker", "cluster"),
    "client-metrics": ("client-metrics",),
    "groups": ("group",),
}


def rows_of_tool(tool: str, printed: str, keys: Keys) -> list[str]:
    """Return what a tool has printed, as lines."""
    if tool == "kafka-log-dirs":
        (found,) = re.findall(r"^\{.*\}$", printed, re.MULTILINE)
        return [
            f"{each['partition']} {each['size']}"
            for broker in json.loads(found)["brokers"]
            for directory in broker["logDirs"]
            for each in directory["partitions"]
        ]
    if tool == "kafka-topics":
        kept = re.sub(r"\tTopicId: \S+|\tElr.*", "", printed)
        return [re.sub(r"[\t ]+", " ", line).strip() for line in kept.splitlines()]
    if tool == "kafka-configs":
        quotas = [line for line in printed.splitlines() if line.startswith("Quota configs for")]
        settings = re.findall(r"^\s+(\S+=\S*) sensitive=", printed, re.MULTILINE)
        return quotas or settings
    cells = [[cell.strip() for cell in line.split("\t")] for line in printed.splitlines()[1:]]
    return [" ".join(cell for cell, key in zip(row, keys, strict=False) if key) for row in cells]


def rows_of_ours(tool: str, rows: list[dict[str, Any]], keys: Keys) -> list[str]:
    """Return the rows of a command, as the lines that a tool prints."""
    if keys:
        return [" ".join(str(row[key]) for key in keys if key) for row in rows]
    return [line for row in rows for line in _LINES[tool](row)]


def _partition_sizes(row: dict[str, Any]) -> list[str]:
    return [
        f"{each['topic']}-{each['partition']} {each['size_bytes']}" for each in row["partitions"]
    ]


def _topic(row: dict[str, Any]) -> list[str]:
    name = row["topic"]
    configs = ",".join(f"{key}={value}" for key, value in row["configs"].items())
    head = (
        f"Topic: {name} PartitionCount: {row['partition_count']}"
        f" ReplicationFactor: {row['replication_factor']} Configs: {configs}"
    )
    return [
        head,
        *(
            f"Topic: {name} Partition: {each['partition']} Leader: {each['leader']}"
            f" Replicas: {','.join(map(str, each['replicas']))}"
            f" Isr: {','.join(map(str, each['isr']))}"
            for each in row["partitions"]
        ),
    ]


def _settings_or_quotas(row: dict[str, Any]) -> list[str]:
    if "quotas" not in row:
        is_dynamic = row["source"] in _DYNAMIC[row["type"]]
        return [f"{row['key']}={row['value']}"] if is_dynamic else []
    entity = ", ".join(
        f"the default {kind}" if row["entity"][key] is None else f"{kind} '{row['entity'][key]}'"
        for key, kind in _ENTITY_TYPES.items()
        if key in row["entity"]
    )
    quotas = ", ".join(f"{key}={float(value)}" for key, value in row["quotas"].items())
    return [f"Quota configs for {entity} are {quotas}"]


_LINES: dict[str, Callable[[dict[str, Any]], list[str]]] = {
    "kafka-log-dirs": _partition_sizes,
    "kafka-topics": _topic,
    "kafka-configs": _settings_or_quotas,
}
