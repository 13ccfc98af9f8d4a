"""The judge of the story: what is right and what is wrong by the independent log."""

from datetime import UTC, datetime
from typing import Any, cast

import pytest

pytest.importorskip("pyarrow", reason="needs pip install coterie[pipeline]")

from tests.live.members import Member
from tests.story.judged import untold, verdicts
from tests.story.record import LEFT, Record, Session

START_MS = 1_760_000_400_000.0


class _Silent:
    """A member that reports nothing."""

    def of(self, *_: str) -> list[Any]:
        return []


def process(client: str, began_s: float, ended_s: float | None = None, end: str = LEFT) -> Session:
    found = Session("g", client, "confluent", None, cast("Member", _Silent()))
    found.started_ms = START_MS + began_s * 1000
    if ended_s is not None:
        found.end = end
        found.ended_ms = found.gone_ms = START_MS + ended_s * 1000
    return found


def finding(rule: str, from_s: float, to_s: float, **columns: Any) -> dict[str, Any]:
    times = {
        name: datetime.fromtimestamp(START_MS / 1000 + seconds, UTC)
        for name, seconds in (("window_start_ts", from_s), ("window_end_ts", to_s))
    }
    row = {"rule": rule, "severity": "info", "group_id": "g", "subject": None, "evidence": ""}
    return row | times | columns


def judged(record: Record, row: dict[str, Any]) -> bool | None:
    (verdict,) = verdicts(record, [row])
    return verdict.is_right


def test_restart_is_right_where_the_broker_was_killed() -> None:
    record = Record()
    record.sessions = [process("a", 0)]
    restart = finding("broker_restart", 98, 130, group_id=None)
    earlier = finding("broker_restart", -98, -30, group_id=None)
    assert judged(record, earlier) is None
    assert judged(record, restart) is False
    record.outages = [(START_MS + 100_000, START_MS + 120_000)]
    assert judged(record, restart) is True
    assert judged(record, finding("broker_restart", 300, 310, group_id=None)) is False
    assert list(untold(record, [restart], {})) == []
    (missing,) = untold(record, [], {})
    assert missing == "no finding says that the broker was away for 20000 ms"


def test_deployment_is_right_if_each_client_restarted_once() -> None:
    record = Record()
    for client, at_s in (("a", 100), ("b", 110)):
        record.sessions += [process(client, 0, at_s), process(client, at_s + 2)]
    assert judged(record, finding("deployment", 100, 112)) is True
    assert judged(record, finding("deployment", 200, 212)) is False
    record.sessions += [process("c", 99, 101), process("c", 103, 105), process("c", 107, 109)]
    assert judged(record, finding("deployment", 100, 112)) is False


def test_process_that_could_not_say_that_it_left_has_expired() -> None:
    record = Record()
    record.sessions = [process("a", 0, 110)]
    expired = finding("expired_member", 110, 140, subject="a at 127.0.0.1")
    assert judged(record, expired) is False
    record.outages = [(START_MS + 100_000, START_MS + 120_000)]
    assert judged(record, expired) is True
