"""The rows of a log as lines for people.

A batch or a record is one line; the members of a generation follow on lines of their own. Fields
without a value are left out. Names and values come from clients, so unprintable characters in them
are escaped.
"""

import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from coterie.cli.output import NOTHING, Line, Row, printable
from coterie.client.names import counted
from coterie.client.record_fields import as_text

_PLAIN_WORD = re.compile(r"[\w./:@+#*-]+")
# The length at which texts and hexadecimal bytes are cut; --json has them whole.
_MAX_TEXT = 400
_TOMBSTONE = ("tombstone", "red")
_OFFSET_WIDTH = 8
_TIME_WIDTH = len("2026-01-31 10:00:00.000")
# Values that mean that a field is not set, in the fields of Kafka's records.
_UNSET: tuple[Any, ...] = (None, "", -1, [])
# The fields that name what a list of partitions belongs to.
_NAME_FIELDS = ("topic_name", "topic", "subtopology_id", "name")
_PARTITION_FIELDS = ("partitions", "partition_ids")

_Parts = list[tuple[str, str]]


def record_lines(row: Row, topic_names: Mapping[str, str]) -> list[Line]:
    """Return the lines of a record.

    Args:
        row: as `record_rows` returns it.
        topic_names: the names of topics by topic id, as far as they are known.
    """
    head: _Parts = [
        (f"{row['offset']:>{_OFFSET_WIDTH}}", "cyan"),
        (f"  {time_text(row['timestamp'])}  ", "bright_black"),
    ]
    if row["producer_id"] >= 0 and row["transactional"]:
        head.append((f"txn {row['producer_id']} ", "magenta"))
    name = row["record_name"]
    if name is None and row["record_type"] is not None:
        name = f"type {row['record_type']}"
    if name:
        head.append((f"{name} ", "magenta" if name.endswith("Marker") else "yellow"))
    _add_key_and_value(head, row, topic_names)
    for header, value in row["headers"]:
        text = "" if value is None else _bytes_text(bytes.fromhex(value))
        head.append((f"  {printable(header)}:{text}", "bright_black"))
    if row["error"]:
        head.append((f"  ({printable(row['error'])})", "red"))
    return [head, *_member_lines(row, topic_names)]


def batch_line(row: Row) -> Line:
    """Return the line of a batch."""
    count = "? records" if row["count"] < 0 else counted(row["count"], "record")
    parts: _Parts = [
        (f"{row['base_offset']:>{_OFFSET_WIDTH}}-{row['last_offset']}", "cyan"),
        (f"  {time_text(row['max_timestamp'])}  ", "bright_black"),
        (count, ""),
        (f"  byte {row['position']}, {row['size']} bytes, epoch {row['leader_epoch']}", ""),
    ]
    if row["magic"] != 2:
        parts.append((f", magic {row['magic']}", "yellow"))
    if row["compression"] != "none":
        parts.append((f", {row['compression']}", "yellow"))
    if row["timestamp_type"] != "CreateTime":
        parts.append((f", {row['timestamp_type']}", ""))
    if row["producer_id"] >= 0:
        producer = f"{row['producer_id']}/{row['producer_epoch']}"
        parts.append((f", producer {producer} from sequence {row['base_sequence']}", ""))
    if row["transactional"]:
        parts.append((", transactional", "magenta"))
    if row["control"]:
        parts.append((", control", "magenta"))
    if row["delete_horizon"] is not None:
        parts.append((f", delete horizon {time_text(row['delete_horizon'])}", ""))
    return parts


def damage_line(row: Row) -> Line:
    """Return the line of damage or of a torn tail."""
    place = printable(f"{row['file']}: byte {row['position']}")
    reason = printable(row["reason"])
    if row["kind"] == "torn_tail":
        text = f"torn tail of {row['size']} bytes: {reason}; a server truncates it when it starts"
        return [(f"{place}: {text}", "yellow")]
    skipped = f"; {row['size']} bytes skipped" if row["size"] else ""
    return [(f"{place}: DAMAGED: {reason}{skipped}", "bright_red")]


def time_text(timestamp_ms: int) -> str:
    """Return a time in UTC; a dash for no time, and the number if it is out of range."""
    if timestamp_ms < 0:
        return NOTHING.ljust(_TIME_WIDTH)
    try:
        moment = datetime.fromtimestamp(timestamp_ms // 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(timestamp_ms)
    return f"{moment:%Y-%m-%d %H:%M:%S}.{timestamp_ms % 1000:03d}"


def _add_key_and_value(head: _Parts, row: Row, topic_names: Mapping[str, str]) -> None:
    if row["key_format"] == "fields":
        head.append((" ".join(_fields(row["key"], topic_names)), "green"))
    elif row["key"] is not None:
        head.append((_undecoded(row["key"], row["key_format"]), "green"))
    elif row["value_format"] != "fields":
        head.append(("no key", "bright_black"))
    head.append(("" if row["key"] is None and row["value_format"] == "fields" else "  ", ""))
    if row["value"] is None:
        head.append(_TOMBSTONE)
    elif row["value_format"] == "fields":
        fields = {name: value for name, value in row["value"].items() if name != "members"}
        head.append((" ".join(_fields(fields, topic_names)) or NOTHING, ""))
        if "members" in row["value"]:
            head.append((f" members={len(row['value']['members'])}", ""))
    else:
        head.append((_undecoded(row["value"], row["value_format"]), ""))


def _member_lines(row: Row, topic_names: Mapping[str, str]) -> list[Line]:
    if row["value_format"] != "fields":
        return []
    indent = " " * (_OFFSET_WIDTH + 2)
    return [
        [(f"{indent}{' '.join(_fields(member, topic_names))}", "")]
        for member in row["value"].get("members", [])
    ]


def _fields(fields: Row, topic_names: Mapping[str, str]) -> list[str]:
    """Return name=value of each field that is set."""
    return [
        f"{name}={_value(name, value, topic_names)}"
        for name, value in fields.items()
        if value not in _UNSET
    ]


def _value(name: str, value: Any, topic_names: Mapping[str, str]) -> str:
    if isinstance(value, dict):
        return "{" + " ".join(_fields(value, topic_names)) + "}"
    if isinstance(value, list):
        return _list(value, topic_names)
    if isinstance(value, str):
        return _text(value)
    if name.endswith(("timestamp", "timestamp_ms")):
        return time_text(value).replace(" ", "T")
    return str(value)


def _list(items: list[Any], topic_names: Mapping[str, str]) -> str:
    if not isinstance(items[0], dict):
        return ",".join(_value("", item, topic_names) for item in items)
    has_partitions = any(name in items[0] for name in _PARTITION_FIELDS)
    text_of: Callable[[Row, Mapping[str, str]], str] = (
        _topic_partitions if has_partitions else _structure
    )
    return ";".join(text_of(item, topic_names) for item in items)


def _topic_partitions(item: Row, topic_names: Mapping[str, str]) -> str:
    """Return the partitions of a topic or subtopology in Kafka's short form, topic:0,1."""
    rest = dict(item)
    partitions = next(rest.pop(key) for key in _PARTITION_FIELDS if key in rest)
    topic_id = rest.pop("topic_id", None)
    name = next((rest.pop(key) for key in _NAME_FIELDS if key in rest), None)
    topic = name or topic_names.get(topic_id or "", topic_id) or ""
    numbers = ",".join(map(str, partitions)) if isinstance(partitions, list) else str(partitions)
    more = " ".join(_fields(rest, topic_names))
    return f"{_text(topic)}:{numbers}" + (f"{{{more}}}" if more else "")


def _structure(item: Row, topic_names: Mapping[str, str]) -> str:
    return "{" + " ".join(_fields(item, topic_names)) + "}"


def _text(text: str) -> str:
    """Return a text, in quotation marks unless it is one plain word."""
    if _PLAIN_WORD.fullmatch(text):
        return _cut(text)
    return _cut(printable(json.dumps(text, ensure_ascii=False)))


def _undecoded(value: Any, form: str) -> str:
    """Return a key or value that is not decoded into fields."""
    if form == "json":
        return _cut(printable(json.dumps(value, ensure_ascii=False)))
    return _cut(f"hex {value}") if form == "hex" else _text(value)


def _bytes_text(data: bytes) -> str:
    text = as_text(data)
    return _cut(f"hex {data.hex()}") if text is None else _text(text)


def _cut(text: str) -> str:
    if len(text) <= _MAX_TEXT:
        return text
    return f"{text[:_MAX_TEXT]}... ({len(text) - _MAX_TEXT} more characters)"
