"""Rows of a log as lines for people: one a batch or record, one for each member of a generation.

Fields without a value are left out. Names and values come from any client, so what is not printable
is escaped. A line is a list of (text, colour) parts.
"""

import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from coterie.cli.log_rows import Row, as_text
from coterie.cli.output import NOTHING, printable

Part = tuple[str, str]
Line = list[Part]

_PLAIN_WORD = re.compile(r"[\w./:@+#*-]+")
# How much of a text or of hexadecimal bytes is shown; --json has all of it.
_MAX_TEXT = 400
_TOMBSTONE = ("tombstone", "red")
_OFFSET_WIDTH = 8
# What these hold where there is nothing to tell; the names are of fields that use it so.
_NOTHING: tuple[Any, ...] = (None, "", -1, [])
_NAME_FIELDS = ("topic_name", "topic", "subtopology_id", "name")


def record_lines(row: Row, names: Mapping[str, str]) -> list[Line]:
    """A record; `names` maps topic ids to names, where these are known."""
    head: Line = [
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
    lines = [head, *_member_lines(row, names)]
    _add_content(head, row, names)
    for header, value in row["headers"]:
        shown = "" if value is None else _bytes_text(bytes.fromhex(value))
        head.append((f"  {printable(header)}:{shown}", "bright_black"))
    if row["error"]:
        head.append((f"  ({printable(row['error'])})", "red"))
    return lines


def batch_line(row: Row) -> Line:
    """A batch's header."""
    count = "?" if row["count"] < 0 else row["count"]
    parts: Line = [
        (f"{row['base_offset']:>{_OFFSET_WIDTH}}-{row['last_offset']}", "cyan"),
        (f"  {time_text(row['max_timestamp'])}  ", "bright_black"),
        (f"{count} {'record' if count == 1 else 'records'}", ""),
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
    """Bytes that are no batch."""
    where = f"{row['file']}: byte {row['position']}"
    if row["kind"] == "torn_tail":
        what = f"torn tail of {row['size']} bytes: {row['reason']}; a server cuts it off at start"
        return [(f"{printable(where)}: {what}", "yellow")]
    skipped = f"; {row['size']} bytes skipped" if row["size"] else ""
    return [(f"{printable(where)}: DAMAGED: {printable(row['reason'])}{skipped}", "bright_red")]


def time_text(timestamp_ms: int) -> str:
    """A time in UTC; a dash for none, the number where it is no time."""
    if timestamp_ms < 0:
        return "-".ljust(23)
    try:
        moment = datetime.fromtimestamp(timestamp_ms // 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(timestamp_ms)
    return f"{moment:%Y-%m-%d %H:%M:%S}.{timestamp_ms % 1000:03d}"


def _add_content(head: Line, row: Row, names: Mapping[str, str]) -> None:
    """Key and value behind the head of a record's line."""
    if row["key_format"] == "fields":
        head.append((" ".join(_fields(row["key"], names)), "green"))
    elif row["key"] is not None:
        head.append((_quoted(row["key"], row["key_format"]), "green"))
    elif row["value_format"] != "fields":
        head.append(("no key", "bright_black"))
    head.append(("" if row["key"] is None and row["value_format"] == "fields" else "  ", ""))
    if row["value"] is None:
        head.append(_TOMBSTONE)
    elif row["value_format"] == "fields":
        shown = {name: value for name, value in row["value"].items() if name != "members"}
        head.append((" ".join(_fields(shown, names)) or NOTHING, ""))
        if "members" in row["value"]:
            head.append((f" members={len(row['value']['members'])}", ""))
    else:
        head.append((_quoted(row["value"], row["value_format"]), ""))


def _member_lines(row: Row, names: Mapping[str, str]) -> list[Line]:
    if row["value_format"] != "fields":
        return []
    indent = " " * (_OFFSET_WIDTH + 2)
    return [
        [(f"{indent}{' '.join(_fields(member, names))}", "")]
        for member in row["value"].get("members", [])
    ]


def _fields(fields: Row, names: Mapping[str, str]) -> list[str]:
    """name=value of each field that has a value."""
    return [
        f"{name}={_value(name, value, names)}"
        for name, value in fields.items()
        if value not in _NOTHING
    ]


def _value(name: str, value: Any, names: Mapping[str, str]) -> str:
    if isinstance(value, dict):
        return "{" + " ".join(_fields(value, names)) + "}"
    if isinstance(value, list):
        return _list(value, names)
    if isinstance(value, str):
        return _word(value)
    if name.endswith("timestamp"):
        return time_text(value).replace(" ", "T")
    return str(value)


def _list(items: list[Any], names: Mapping[str, str]) -> str:
    if not isinstance(items[0], dict):
        return ",".join(_value("", item, names) for item in items)
    parts: Callable[[Row], str] = _partitions(names) if "partitions" in items[0] else _braced(names)
    return ";".join(parts(item) for item in items)


def _partitions(names: Mapping[str, str]) -> Callable[[Row], str]:
    """Partitions of a topic or subtopology in Kafka's short form, topic:0,1."""

    def text(item: Row) -> str:
        rest = dict(item)
        partitions = rest.pop("partitions")
        topic_id = rest.pop("topic_id", None)
        name = next((rest.pop(key) for key in _NAME_FIELDS if key in rest), None)
        topic = name or names.get(topic_id or "", topic_id) or ""
        shown = ",".join(map(str, partitions)) if isinstance(partitions, list) else str(partitions)
        more = " ".join(_fields(rest, names))
        return f"{_word(topic)}:{shown}" + (f"{{{more}}}" if more else "")

    return text


def _braced(names: Mapping[str, str]) -> Callable[[Row], str]:
    return lambda item: "{" + " ".join(_fields(item, names)) + "}"


def _word(text: str) -> str:
    """Text without quotes where it is one plain word."""
    if _PLAIN_WORD.fullmatch(text):
        return _cut(text)
    return _cut(printable(json.dumps(text, ensure_ascii=False)))


def _quoted(value: Any, form: str) -> str:
    """A key or value that is not decoded into fields."""
    return _cut(f"hex {value}") if form == "hex" else _word(value)


def _bytes_text(data: bytes) -> str:
    text = as_text(data)
    return _cut(f"hex {data.hex()}") if text is None else _word(text)


def _cut(text: str) -> str:
    if len(text) <= _MAX_TEXT:
        return text
    return f"{text[:_MAX_TEXT]}... ({len(text) - _MAX_TEXT} more characters)"
