"""A short slice of the hunt for long turns, and proof that it finds one."""

from pathlib import Path

import pytest

from coterie.protocol.api_keys import SERVED_VERSIONS, ApiKey
from coterie.protocol.apis import request_class
from coterie.protocol.frames import decode_request_header
from tests.soak.turns.__main__ import LIMIT_MS, Row, hunt
from tests.soak.turns.requests import ELEMENTS, has_arrays, largest, newest
from tests.soak.turns.verbs import Sizes

SMALL = Sizes().scaled(0.02)
JUDGED = (
    "OffsetCommit, pipelined, of new groups",
    "InitProducerId, pipelined, of new ids",
    "OffsetCommit, pipelined by 100 connections",
    "Heartbeat, pipelined",
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
    # Other processes make a turn use up to three times as much of a processor, so the best counts.
    tries = [rows(tmp_path / str(number), *JUDGED) for number in range(2)]
    assert {row.verb for row in tries[0]} >= set(JUDGED)
    for several in zip(*tries, strict=True):
        best = min(several, key=lambda row: row.longest.cpu_ms)
        assert best.verb not in JUDGED or best.longest.cpu_ms < LIMIT_MS, best


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_server_with_a_long_turn_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.soak.turns.__main__.SERVER", "tests.soak.turns.planted")
    found = [row for row in rows(tmp_path / "data", "ListGroups of all") if "all" in row.verb]
    assert [row.verb for row in found] == ["ListGroups of all"]
    assert found[0].longest.cpu_ms > LIMIT_MS
    assert found[0].waited_ms > LIMIT_MS


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
