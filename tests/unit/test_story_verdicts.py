"""`make story` judges findings by its log: it sees what is wrong and what is not told."""

import pytest

pytest.importorskip("pyarrow", reason="needs pip install coterie[pipeline]")

from datetime import UTC, datetime, timedelta
from typing import Any

from tests.story.judged import untold, verdicts
from tests.story.record import KILLED, LEFT, Record, Session

# The time of all findings: later than the sessions, which begin now.
_AT = datetime.now(UTC) + timedelta(hours=1)


class _Member:
    def of(self, *_: str) -> list[Any]:
        return []


def _session(client: str, end: str | None, instance: str | None = None) -> Session:
    session = Session("g", client, "aiokafka", instance, _Member())  # type: ignore[arg-type]
    session.end = end
    session.ended_ms = None if end is None else session.started_ms + 1
    return session


def _finding(rule: str, subject: str) -> dict[str, Any]:
    return {
        "rule": rule, "severity": "warning", "group_id": "g", "subject": subject, "evidence": "",
        "window_start_ts": _AT, "window_end_ts": _AT,
    }  # fmt: skip


def _record(*sessions: Session) -> Record:
    record = Record()
    record.sessions += sessions
    return record


def test_finding_is_right_only_if_the_log_confirms_it() -> None:
    record = _record(_session("dead", KILLED), _session("gone", LEFT))
    found = [
        _finding("expired_member", "dead at 127.0.0.1"),
        _finding("expired_member", "gone at 127.0.0.1"),
        _finding("flapping_member", "gone at 127.0.0.1"),
        _finding("broker_restart", ""),
        _finding("deployment", ""),
        _finding("stalled_partition", ""),
    ]
    right = [each.is_right for each in verdicts(record, found)]
    assert right == [True, False, False, False, False, None]


def test_cause_that_no_finding_tells_is_a_contradiction() -> None:
    flaps = [_session("restless", LEFT) for _ in range(3)]
    desk = [_session("first", LEFT, "desk-1"), _session("first", None, "desk-1")]
    record = _record(_session("dead", KILLED), *flaps, *desk)
    told = [
        _finding("expired_member", "dead at 127.0.0.1"),
        _finding("flapping_member", "restless at 127.0.0.1"),
        _finding("static_restart", "desk-1"),
    ]
    assert not list(untold(record, told, {}))
    assert len(list(untold(record, [], {}))) == 3
