"""What Kafka's dump tool prints about a data directory, beside what `coterie dump` prints.

Both are brought into one form, a tuple for each record, producer or aborted transaction, and must
be equal, file by file.
"""

import base64
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

from coterie.client.message_json import jsonable
from coterie.coordinator.transactions.states import TransactionState
from coterie.protocol.fields import uuid_text
from coterie.protocol.messages.consumer_protocol import decode_subscription
from coterie.protocol.topic_names import (
    JOURNAL_TOPIC,
    METADATA_TOPIC,
    OFFSETS_TOPIC,
    TRANSACTIONS_TOPIC,
)
from coterie.protocol.wire import ZERO_UUID
from tests.interop.kafka_node import KafkaNode
from tests.interop.model import Failed

_DUMP = "org.apache.kafka.tools.DumpLogSegments"
_OPTIONS = {OFFSETS_TOPIC: "--offsets-decoder", TRANSACTIONS_TOPIC: "--transaction-log-decoder"}
_KINDS = frozenset({".log", ".snapshot", ".txnindex"})
# Their records are neither text nor those of Kafka's coordinators.
_NOT_COMPARED = (METADATA_TOPIC, JOURNAL_TOPIC)
_LIMIT_S = 60.0
# A line of the tool is names and values.
_PAIR = re.compile(r"(\w+): (\S+)")
_RECORD = re.compile(r"\| offset: (\d+) CreateTime: (\d+) .*? headerKeys: \[\] (.*)")
_FIELDS = re.compile(r"key: (\{.*\}) payload: (.*)")
_TEXT = re.compile(r"(?:key: (.*) )?payload: (.*)")
_MARKER = re.compile(r"endTxnMarker: (COMMIT|ABORT) coordinatorEpoch: (-?\d+)")
# What Kafka's tool leaves out of a value, because it is what the schema has as the default.
_DEFAULTS: tuple[Any, ...] = (None, "", -1, 0, [], uuid_text(ZERO_UUID))

# The file, and what is in it.
Entry = tuple[Any, ...]


def compare_dumps(kafka: KafkaNode, directory: Path, kinds: AbstractSet[str] = _KINDS) -> int:
    """Compare what both tools print about every file of a directory; return how much that is.

    Args:
        kafka: has the tool of Kafka.
        directory: the data directory of a broker that does not run.
        kinds: the kinds of files that must be there.

    Raises:
        Failed: they differ, or print nothing.
    """
    partitions = [
        each
        for each in directory.iterdir()
        if re.search(r"-\d+$", each.name) and not each.name.startswith(_NOT_COMPARED)
    ]
    found = _ours(directory)
    expected = {each for part in partitions for each in _kafkas(kafka, part)}
    for who, more in (("Kafka", expected - found), ("coterie", found - expected)):
        if more:
            shown = "\n".join(map(str, sorted(more, key=str)[:10]))
            raise Failed(f"only {who} prints {len(more)} of {len(found)} entries:\n{shown}")
    seen = {Path(each[0]).suffix for each in found}
    if not kinds <= seen:
        raise Failed(f"only files of these kinds are in {directory}: {seen}")
    return len(found)


# --- Kafka's tool ---------------------------------------------------------------------------------


def _kafkas(kafka: KafkaNode, partition: Path) -> Iterator[Entry]:
    files = [
        path
        for path in sorted(partition.iterdir())
        if path.suffix in _KINDS and path.stat().st_size
    ]
    topic = partition.name.rpartition("-")[0]
    option = _OPTIONS.get(topic, "--print-data-log")
    file = ""
    for line in kafka.run(_DUMP, option, "--files", ",".join(map(str, files))).splitlines():
        if line.startswith("Dumping "):
            file = line.removeprefix("Dumping ")
            continue
        parse = _PARSERS.get(Path(file).suffix)
        entry = None if parse is None else parse(line)
        if entry is not None:
            yield (file, *entry)


def _record(line: str) -> Entry | None:
    found = _RECORD.match(line)
    if found is None:
        return None
    offset, timestamp, rest = found.groups()
    place = int(offset), int(timestamp)
    if marker := _MARKER.fullmatch(rest):
        return (*place, marker[1], int(marker[2]))
    if fields := _FIELDS.fullmatch(rest):
        key = json.loads(fields[1])
        value = None if fields[2] in ("null", "<DELETE>") else json.loads(fields[2])
        version = None if value is None else int(value["version"])
        return (
            *place, int(key["type"]), _comparable(key["data"]), version,
            None if value is None else _comparable(value["data"]),
        )  # fmt: skip
    text = _TEXT.fullmatch(rest)
    if text is None:
        raise Failed(f"the line is not understood: {line}")
    return (*place, text[1], text[2])


def _producer(line: str) -> Entry | None:
    found = dict(_PAIR.findall(line))
    if "producerEpoch" not in found:
        return None
    first = re.search(r"\d+", found["currentTxnFirstOffset"])
    return (
        int(found["producerId"]), int(found["producerEpoch"]), int(found["coordinatorEpoch"]),
        int(first[0]) if first else -1, int(found["lastTimestamp"]),
        int(found.get("lastSequence", -1)), int(found.get("lastOffset", -1)),
        int(found.get("offsetDelta", 0)),
    )  # fmt: skip


def _aborted(line: str) -> Entry | None:
    found = dict(_PAIR.findall(line))
    names = ("producerId", "firstOffset", "lastOffset", "lastStableOffset")
    return tuple(int(found[name]) for name in names) if "firstOffset" in found else None


_PARSERS: dict[str, Callable[[str], Entry | None]] = {
    ".log": _record,
    ".snapshot": _producer,
    ".txnindex": _aborted,
}

# --- ours -----------------------------------------------------------------------------------------


def _ours(directory: Path) -> set[Entry]:
    program = str(Path(sys.executable).with_name("coterie"))
    rows = []
    for command in ("log", "producers"):
        done = subprocess.run(
            [program, "dump", command, str(directory), "--json"],
            capture_output=True, text=True, timeout=_LIMIT_S, check=False,
        )  # fmt: skip
        if done.returncode:
            raise Failed(f"coterie dump {command} fails: {done.stderr}")
        rows += [json.loads(line) for line in done.stdout.splitlines()]
    rows = [row for row in rows if row["topic"] not in _NOT_COMPARED]
    return {(row["file"], *_of_row(row)) for row in rows}


def _of_row(row: dict[str, Any]) -> Entry:
    if row["kind"] == "producer":
        names = (
            "producer_id", "epoch", "coordinator_epoch", "current_txn_first_offset",
            "timestamp_ms", "last_sequence", "last_offset", "offset_delta",
        )  # fmt: skip
        return tuple(row[name] for name in names)
    if row["kind"] == "aborted_transaction":
        fields = ("producer_id", "first_offset", "last_offset", "last_stable_offset")
        return tuple(row[name] for name in fields)
    place = row["offset"], row["timestamp"]
    name = row["record_name"] or ""
    if name.endswith("Marker"):
        return (*place, name.removesuffix("Marker").upper(), row["value"]["coordinator_epoch"])
    if row["key_format"] != "fields":
        return (*place, row["key"], row["value"])
    value = None if row["value"] is None else _comparable(row["value"])
    return (*place, row["record_type"], _comparable(row["key"]), row["value_version"], value)


def _comparable(fields: Any) -> Any:
    """Return fields in one form: names in snake_case, without defaults, states as names."""
    if isinstance(fields, list):
        return tuple(_comparable(each) for each in fields)
    if not isinstance(fields, dict):
        return fields
    result: list[tuple[str, Any]] = []
    for name, value in fields.items():
        key = re.sub(r"([A-Z])", lambda found: f"_{found[1].lower()}", name)
        if key == "transaction_status" and isinstance(value, int):
            result.append((key, TransactionState(value).kafka_name))
        elif key == "supported_protocols":
            result.append((key, tuple(_protocol(each) for each in value)))
        elif value not in _DEFAULTS:
            result.append((key, _comparable(value)))
    return tuple(sorted(result))


def _protocol(fields: dict[str, Any]) -> Any:
    """Return a protocol of a classic member, whose subscription Kafka's tool does not decode."""
    metadata = fields["metadata"]
    if isinstance(metadata, str):
        decoded = decode_subscription(base64.b64decode(metadata))
        metadata = jsonable(decoded, readable_ids=True)
    return fields["name"], _comparable(metadata)
