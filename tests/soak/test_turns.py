"""A short slice of the hunt for long turns, and proof that it finds one."""

from collections import Counter
from pathlib import Path

import pytest

from coterie.protocol.api_keys import SERVED_VERSIONS, ApiKey
from coterie.protocol.apis import request_class
from coterie.protocol.errors import ErrorCode
from coterie.protocol.frames import decode_request_header
from coterie.protocol.messages.fetch import (
    FetchResponse,
    FetchResponsePartition,
    FetchResponseTopic,
)
from tests.soak.turns.__main__ import line
from tests.soak.turns.answers import Answers, description, most
from tests.soak.turns.documented import DOCUMENTED
from tests.soak.turns.hunt import LIMIT_MS, Row, hunt
from tests.soak.turns.requests import ELEMENTS, has_arrays, largest, newest
from tests.soak.turns.session import Sizes
from tests.soak.turns.timed import LongestTurns
from tests.unit.server.turns import limit_here_s

SMALL = Sizes().scaled(0.02)
JUDGED = (
    "OffsetCommit, pipelined, of new groups",
    "InitProducerId, pipelined, of new ids",
    "OffsetCommit, pipelined by 100 connections",
    "Heartbeat, pipelined",
    "ConsumerGroupHeartbeat, pipelined, joins",
    "ConsumerGroupHeartbeat, leave and downgrade",
    "ConsumerGroupHeartbeat, join and upgrade",
    "ConsumerGroupDescribe of an upgraded group",
    "Metadata of all",
    "ListGroups of all",
    "Produce, wide",
)


def rows(directory: Path, *words: str) -> list[Row]:
    """Run some verbs on a small server."""
    directory.mkdir()
    return list(hunt(directory, SMALL, lambda name: any(word in name for word in words)))


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_no_verb_of_the_slice_holds_the_loop(tmp_path: Path) -> None:
    # Other processes make a turn use up to three times as much of a processor, so what was long is
    # tried again, and the limit is that of the unit tests; `make turns` holds the 20 ms.
    limit_ms = limit_here_s() * 1000
    found = rows(tmp_path / "first", *JUDGED)
    assert {row.verb for row in found} >= set(JUDGED)
    assert {(row.verb, row.code) for row in found} == {(row.verb, row.expected) for row in found}
    long = {row.verb for row in found if row.longest.cpu_ms >= limit_ms} & set(JUDGED)
    again = rows(tmp_path / "again", *long) if long else []
    assert [row for row in again if row.verb in long and row.longest.cpu_ms >= limit_ms] == []


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_server_with_a_long_turn_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.soak.turns.hunt.SERVER", "tests.soak.turns.planted")
    found = [row for row in rows(tmp_path / "data", "ListGroups of all") if "all" in row.verb]
    assert [row.verb for row in found] == ["ListGroups of all"]
    assert found[0].longest.cpu_ms > LIMIT_MS
    assert found[0].beat_ms > LIMIT_MS


def test_codes_of_the_innermost_elements_are_counted() -> None:
    partitions = [
        FetchResponsePartition(partition_index=0, error_code=code, high_watermark=0, records=None)
        for code in (0, 0, int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    ]
    response = FetchResponse(responses=[FetchResponseTopic(topic="w", partitions=partitions)])
    # A correlation id and no tags.
    answer = b"\0\0\0\1\0" + FetchResponse.encoder(12)(response)
    codes = Answers(ApiKey.FETCH, 12, Counter({answer: 2})).codes()
    assert codes == {"NONE": 4, "UNKNOWN_TOPIC_OR_PARTITION": 2}
    assert most(codes) == "NONE"
    assert description(codes) == "4 NONE, 2 UNKNOWN_TOPIC_OR_PARTITION"


def test_row_with_another_answer_or_a_long_turn_is_a_finding() -> None:
    row = Row("ListGroups of all", LongestTurns(cpu_ms=10), 1, 1, "1 NONE", "NONE", "NONE")
    assert row.finding == ""
    refused = row._replace(code="INVALID_REQUEST")
    assert refused.finding == "answered INVALID_REQUEST, expected NONE"
    long = row._replace(longest=LongestTurns(cpu_ms=LIMIT_MS + 1))
    assert long.finding == "a turn of 21.0 ms of a processor"
    assert f"{row.verb:<43}*" in line(long)
    # It was not the server that took the time.
    waited = row._replace(longest=LongestTurns(wall_ms=300, waited_ms=295, cpu_ms=5))
    assert waited.finding == ""


def test_documented_turn_is_none_up_to_its_own_limit() -> None:
    verb, documented = next(iter(DOCUMENTED.items()))
    row = Row(verb, LongestTurns(cpu_ms=documented.most_ms), 1, 1, "1 NONE", "NONE", "NONE")
    assert row.finding == ""
    assert row.reason == documented.reason
    assert row._replace(longest=LongestTurns(cpu_ms=documented.most_ms + 1)).finding != ""


@pytest.mark.parametrize("api", [api for api in SERVED_VERSIONS if has_arrays(api)])
def test_largest_request_has_as_many_elements_as_are_allowed(api: ApiKey) -> None:
    cls, version = request_class(api), newest(api)
    frame = largest(api)
    flexible = cls.has_flexible_header(version)
    header, body = decode_request_header(frame, 4, len(frame), flexible=flexible)
    assert header.api_key == api
    request = cls.decode(frame, version, body)
    assert ELEMENTS // 2 < elements_of(request) <= ELEMENTS + 10


def elements_of(value: object) -> int:
    """Return how many elements the arrays of a request have together."""
    if isinstance(value, list):
        return len(value) + sum(map(elements_of, value))
    return sum(elements_of(getattr(value, name)) for name in getattr(value, "fields_", ()))
