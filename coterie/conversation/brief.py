"""Messages of any API for people: the fields that do not have their default, by the declarations.

    till> ListOffsets v7 replica_id=-1 topics=[{name: sales, partitions: [{partition_index: 0, ...

This is not read again; `structures.py` has the form that is. If it `is_short`, each partition comes
before what is said of it, and what seldom matters to a reader is left out:

    till> ListOffsets v7 topics={sales-0: {timestamp: -1}}
"""

from typing import Any, NamedTuple

from coterie.conversation.batches import batch_headers, read_batch_headers
from coterie.conversation.identities import kind_of
from coterie.conversation.names import Names
from coterie.conversation.structures import error_text
from coterie.conversation.syntax import format_list, format_map, quote
from coterie.protocol.fields import uuid_text
from coterie.protocol.schema import WireField, fields_of
from coterie.protocol.wire import Message, Struct

# Of a longer list only the first elements are shown.
_LONG_LIST = 8
_SHOWN_ELEMENTS = 2
_SHOWN_BYTES = 16
_INDEXES = ("partition_index", "partition")
# Fields of clients' requests, and of the answers, that a short line does not have.
_SELDOM = frozenset(
    {
        *_INDEXES,
        *("replica_id", "min_bytes", "max_bytes", "partition_max_bytes", "isolation_level"),
        *("session_id", "session_epoch", "log_start_offset", "last_stable_offset", "rack"),
        *("cluster_id", "controller_id", "replica_nodes", "isr_nodes", "topic_id", "error_message"),
        *("allow_auto_topic_creation", "aborted_transactions"),
        *("api_keys", "supported_features", "finalized_features"),
    }
)


class Brief(NamedTuple):
    """What the text of a field depends on, besides the field.

    Attributes:
        message: the name of the message.
        version: its version.
        names: the names of the conversation.
        is_bare: whether of record batches only the headers are there.
        is_short: see above.
    """

    message: str
    version: int
    names: Names
    is_bare: bool = False
    is_short: bool = False

    def line(self, message: Message) -> str:
        """Return the text behind the version."""
        return " ".join(f"{name}={text}" for name, text in self.fields(message))

    def fields(self, holder: Struct) -> list[tuple[str, str]]:
        """Return the names and texts of the fields that do not have their default."""
        parts = []
        for field in fields_of(type(holder)):
            value = getattr(holder, field.name)
            is_default = not field.required and value == field.default
            is_left_out = self.is_short and field.name in _SELDOM
            if is_default or is_left_out or not field.present(self.version):
                continue
            if field.name == "error_code":
                if value:
                    parts.append(("error", error_text(value)))
            else:
                parts.append((field.name, self.value(field, value)))
        return parts

    def value(self, field: WireField, value: Any) -> str:
        """Return the text of a value."""
        if isinstance(value, list):
            if self.is_short and value and hasattr(value[0], "partitions"):
                return format_map(self._partitions(value))
            shown = value if len(value) <= _LONG_LIST else value[:_SHOWN_ELEMENTS]
            items = [self.value(field, each) for each in shown]
            if len(shown) < len(value):
                items.append(f"and {len(value) - len(shown)} more")
            return format_list(items)
        if isinstance(value, Struct):
            return format_map(self.fields(value))
        if isinstance(value, bytes):
            return self._bytes(field, value)
        if isinstance(value, str):
            is_member = kind_of(self.message, field.name) == "member"
            return quote(self.names.member_text(value) if is_member else value)
        if value is None:
            return "null"
        return str(value).lower() if isinstance(value, bool) else str(value)

    def _partitions(self, topics: list[Any]) -> list[tuple[str, str]]:
        """Return what is said of topics, and of each of their partitions."""
        entries = []
        for topic in topics:
            name = getattr(topic, "name", "") or getattr(topic, "topic", "")
            name = name or self.names.topic_name(topic.topic_id)
            if getattr(topic, "error_code", 0):
                entries.append((name, error_text(topic.error_code)))
            for each in topic.partitions:
                index = next((getattr(each, key) for key in _INDEXES if hasattr(each, key)), each)
                fields = self.fields(each) if isinstance(each, Struct) else []
                entries.append((f"{name}-{index}", format_map(fields)))
        return entries

    def _bytes(self, field: WireField, value: bytes) -> str:
        kind = "" if field.type.wire is None else field.type.wire.kind
        if kind == "uuid":
            return uuid_text(value)
        if kind == "records":
            headers = read_batch_headers(value if self.is_bare else batch_headers(value))
            records = sum(header.record_count for _, header in headers)
            return format_map([("batches", str(len(headers))), ("records", str(records))])
        shown = value[:_SHOWN_BYTES].hex()
        return f"0x{shown}{'...' if len(value) > _SHOWN_BYTES else ''}"
