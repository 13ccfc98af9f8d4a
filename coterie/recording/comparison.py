"""Compares an answer of a replay with the recorded one, field by field.

Left out are times and throttle times, which no two runs have in common, and what the brokers offer
in ApiVersions. Elements of lists are paired by what they are about, such as their topic, whatever
their order.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from coterie.conversation.identities import Identities, kind_of, likeness
from coterie.conversation.payloads import assignment_text, subscription_text
from coterie.conversation.structures import error_text
from coterie.protocol.fields import uuid_text
from coterie.protocol.schema import WireField, fields_of
from coterie.protocol.wire import Message, Struct
from coterie.recording.batches import batches_of

_IGNORED = frozenset({"throttle_time_ms"})
# What a broker offers. What matters of it is found by the requests that it does not serve.
_OFFERS = frozenset(
    {
        "api_keys",
        "supported_features",
        "finalized_features",
        "finalized_features_epoch",
        "zk_migration_ready",
    }
)
# Times: only whether there is one is compared.
_TIMES = frozenset({"timestamp", "log_append_time_ms", "max_timestamp"})
# What an element of a list is about: the first of these that it has and that is not empty.
_SUBJECTS = (
    "group_id", "key", "name", "topic", "topic_id", "partition_index", "partition", "index",
    "resource_name", "member_id", "group_instance_id", "node_id", "broker_id", "subtopology_id",
    "status_code",
)  # fmt: skip
_ABSENT = "nothing"


class Difference(NamedTuple):
    """A field that differs.

    Attributes:
        field: its path, such as `topics[sales].partitions[0].error_code`.
        recorded, replayed: its values as texts.
    """

    field: str
    recorded: str
    replayed: str

    def __str__(self) -> str:
        return f"{self.field}: recorded {self.recorded}, replayed {self.replayed}"


class Comparison:
    """Compares answers and notes the ids in them."""

    def __init__(self, identities: Identities, *, with_payloads: bool) -> None:
        """Compare with the pairs of a replay.

        Args:
            identities: the pairs.
            with_payloads: whether the recording has keys and values of records.
        """
        self._identities = identities
        self._with_payloads = with_payloads
        self._message = ""
        self._version = 0

    def differences(self, recorded: Message, replayed: Message, version: int) -> list[Difference]:
        """Return how an answer differs from the recorded one; ids that are new are paired."""
        self._message = type(recorded).__name__
        self._version = version
        return list(self._structs(recorded, replayed, ""))

    def _structs(self, recorded: Struct, replayed: Struct, path: str) -> Iterator[Difference]:
        for field in fields_of(type(recorded)):
            if field.present(self._version) and field.name not in _IGNORED | _OFFERS:
                one, other = getattr(recorded, field.name), getattr(replayed, field.name)
                yield from self._values(field, one, other, f"{path}{field.name}")

    def _values(self, field: WireField, one: Any, other: Any, path: str) -> Iterator[Difference]:
        if isinstance(one, list) and isinstance(other, list):
            yield from self._lists(field, one, other, path)
        elif isinstance(one, Struct) and isinstance(other, Struct):
            yield from self._structs(one, other, f"{path}.")
        elif field.type.wire is not None and field.type.wire.kind == "records":
            yield from self._records(one, other, path)
        elif not self._are_equal(field.name, one, other):
            yield Difference(path, _text(field, one), _text(field, other))

    def _are_equal(self, name: str, one: Any, other: Any) -> bool:
        if name in _TIMES:
            return bool((one < 0) == (other < 0))
        kind = kind_of(self._message, name)
        return bool(one == other) if kind is None else self._identities.pair(kind, one, other)

    def _records(self, one: Any, other: Any, path: str) -> Iterator[Difference]:
        kept = self._with_payloads
        recorded = batches_of(one, headers_only=not kept, with_records=kept)
        replayed = batches_of(other, headers_only=False, with_records=kept)
        if recorded.spans != replayed.spans:
            yield Difference(path, str(recorded), str(replayed))
        elif recorded.records != replayed.records:
            yield Difference(path, f"{recorded} with other contents", str(replayed))

    def _lists(
        self, field: WireField, one: list[Any], other: list[Any], path: str
    ) -> Iterator[Difference]:
        if field.type.element is None or field.type.element.struct is None:
            kind = kind_of(self._message, field.name)
            if kind is not None:
                one = [self._identities.replayed(kind, each) for each in one]
            if one != other:
                yield Difference(path, _text(field, one), _text(field, other))
            return
        left = list(other)
        for at, each in enumerate(one):
            found = self._partner(each, left)
            where = f"{path}[{_subject_text(each, at)}]"
            if found is not None:
                left.remove(found)
                yield from self._structs(each, found, f"{where}.")
            else:
                yield Difference(where, "an element", _ABSENT)
        for each in left:
            yield Difference(f"{path}[{_subject_text(each, len(one))}]", _ABSENT, "an element")

    def _partner(self, element: Struct, candidates: list[Any]) -> Any:
        """Return the candidate that is about the same; one that is like it if its id is new."""
        name = _subject(element)
        if name is None:
            return candidates[0] if candidates else None
        value = getattr(element, name)
        kind = kind_of(self._message, name)
        if kind is None or self._identities.is_paired(kind, value):
            if kind is not None:
                value = self._identities.replayed(kind, value)
            return next((each for each in candidates if getattr(each, name) == value), None)
        instance = getattr(element, "group_instance_id", None)
        fitting = [
            each
            for each in candidates
            if likeness(getattr(each, name)) == likeness(value)
            and getattr(each, "group_instance_id", None) == instance
        ]
        return next(iter(fitting or candidates), None)


def _subject(element: Struct) -> str | None:
    """Return the field that says what an element is about."""
    for name in _SUBJECTS:
        if getattr(element, name, None) not in (None, "", bytes(16)):
            return name
    return None


def _subject_text(element: Struct, at: int) -> str:
    name = _subject(element)
    value = at if name is None else getattr(element, name)
    return uuid_text(value) if isinstance(value, bytes) else str(value)


def _text(field: WireField, value: Any) -> str:
    if field.name == "error_code":
        return error_text(value)
    if isinstance(value, bytes):
        return _bytes_text(field, value)
    return repr(value) if isinstance(value, str) else str(value)


def _bytes_text(field: WireField, value: bytes) -> str:
    if field.type.wire is not None and field.type.wire.kind == "uuid":
        return uuid_text(value)
    if field.name.endswith("assignment"):
        return assignment_text(value)
    return subscription_text(value) if field.name.endswith("metadata") else f"0x{value.hex()}"
