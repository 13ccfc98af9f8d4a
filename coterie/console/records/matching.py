"""What a search looks for in records: a text in what is shown of them, a field of JSON, or both.

What is shown of a part that a schema decodes is its value as a text, and of any other part its
bytes [console/search].

A pattern is one of RE2, whose time is proportional to the text. A batch is decoded only if its
bytes have a match, which is found many times faster than by records. That holds for patterns, too,
but not for those that may say where a part begins or ends; and for names of fields. With a registry
of schemas it does not hold: the bytes of a part do not have the text that they stand for.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from coterie.client.batches import FetchedBatches, StoredBatch
from coterie.client.registry.decoding import Registry
from coterie.console.records.json_path import BadPath, JsonPath, Wanted
from coterie.console.records.reading import COMMITTED, Read, transactions_of
from coterie.coordinator.patterns import BytePattern, InvalidPattern
from coterie.protocol.errors import MalformedFrame
from coterie.protocol.raw_records import open_body
from coterie.protocol.records import Record
from coterie.server.network.http_errors import Refused

PARTS = ("key", "value", "headers")

# What in a pattern may say where it matches: at the beginning or the end of a text or a word. Some
# patterns with these characters say nothing like it, and are only slower.
_PLACES = re.compile(r"[\^$]|\\[bBAzQ]")
# JSON may write any character so.
_ESCAPE = b"\\u"

Matches = Callable[[bytes], bool]


class Query(NamedTuple):
    """What is looked for.

    Attributes:
        text: the text, or the pattern; "" for any record.
        is_pattern: whether it is a pattern of RE2.
        ignores_case: whether the case of letters does not matter.
        parts: some of `PARTS`.
        path: a place in the JSON of key or value; "" for none.
        equals: what is there; None for anything.
        only_committed: whether records of aborted and undecided transactions are left out.
    """

    text: str
    is_pattern: bool
    ignores_case: bool
    parts: tuple[str, ...]
    path: str
    equals: str | None
    only_committed: bool


class Matcher:
    """Finds what is looked for.

    Attributes:
        query: what is looked for.
        registry: that of the schemas of records; None for none.
    """

    def __init__(self, query: Query, registry: Registry | None) -> None:
        """Prepare.

        Raises:
            Refused: the text is no pattern, or the path is none.
        """
        self.query = query
        self.registry = registry
        self._needle = query.text.encode()
        self._matches: Matches = self._contains
        if query.is_pattern or query.ignores_case:
            try:
                self._matches = BytePattern(
                    query.text, is_literal=not query.is_pattern, ignores_case=query.ignores_case
                ).is_in
            except InvalidPattern as error:
                raise Refused("BadRequest", f"text: it is no pattern: {error.reason}") from None
        # Whether a match in a part of a record is one in the bytes of its batch, too.
        says_place = query.is_pattern and _PLACES.search(query.text)
        self._is_in_batch = registry is None and not says_place
        self._path: JsonPath | None = None
        if query.path:
            try:
                self._path = JsonPath.of(query.path)
            except BadPath as error:
                raise Refused("BadRequest", f"path: {error}") from None
        self._wanted = None if query.equals is None else Wanted(query.equals)
        self._names = self._path.plain_names if self._path and registry is None else []

    def _contains(self, part: bytes) -> bool:
        return self._needle in part

    def reads(
        self, partition: int, fetched: FetchedBatches, stable: int, end: int
    ) -> Iterator[Read]:
        """Yield the records of a response that match.

        Args:
            partition: its number.
            fetched: the response.
            stable: the last stable offset.
            end: the offset before which records are wanted.
        """
        for batch, transaction in transactions_of(fetched, stable):
            if batch.header.base_offset >= end:
                return
            is_hidden = self.query.only_committed and transaction not in (None, COMMITTED)
            if batch.header.is_control or is_hidden or not self._may_match(fetched, batch):
                continue
            for record in fetched.records(batch):
                if record.offset < end and self._is_match(record):
                    yield Read(partition, record, batch.header, transaction)

    def _may_match(self, fetched: FetchedBatches, batch: StoredBatch) -> bool:
        """Return whether a record of a batch may match."""
        seeks = self._is_in_batch and bool(self.query.text)
        if batch.header.magic < 2 or not (seeks or self._names):
            return True
        try:
            body, begin, end = open_body(fetched.data, batch.header, batch.position)
        except MalformedFrame:
            # Decoding says what is wrong with it.
            return True
        data = body[begin:end]
        if seeks and not self._matches(data):
            return False
        return _ESCAPE in data or all(name in data for name in self._names)

    def _is_match(self, record: Record) -> bool:
        if self.query.text and not self._has_text(record):
            return False
        return self._path is None or self._has_field(record, self._path)

    def _has_text(self, record: Record) -> bool:
        matches, parts = self._matches, self.query.parts
        if "key" in parts and record.key is not None and matches(self._shown(record.key)):
            return True
        if "value" in parts and record.value is not None and matches(self._shown(record.value)):
            return True
        return "headers" in parts and any(
            matches(name.encode("utf-8", "surrogateescape"))
            or (value is not None and matches(value))
            for name, value in record.headers
        )

    def _shown(self, part: bytes) -> bytes:
        """Return what is shown of a part: its value, if a schema decodes it."""
        decoded = None if self.registry is None else self.registry.decode(part)
        if decoded is None or decoded.error is not None:
            return part
        return decoded.text.encode("utf-8", "surrogatepass")

    def _has_field(self, record: Record, path: JsonPath) -> bool:
        parts = {"key": record.key, "value": record.value}
        for name in self.query.parts:
            data = parts.get(name)
            if data is None:
                continue
            for found in path.values(self._document(data)):
                if self._wanted is None or self._wanted.is_equal(found):
                    return True
        return False

    def _document(self, data: bytes) -> Any:
        """Return a part as JSON; None if it is none."""
        decoded = None if self.registry is None else self.registry.decode(data)
        if decoded is not None:
            return decoded.value
        try:
            return json.loads(data)
        except (ValueError, RecursionError):
            return None
