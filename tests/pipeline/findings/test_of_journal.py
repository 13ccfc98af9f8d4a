"""`groups check` and the page have one rule set [pipeline/one-rule-set]."""

import pytest

pytest.importorskip("pyarrow", reason="needs pip install coterie[pipeline]")

from typing import Any

import pyarrow as pa

from coterie.pipeline.findings.group import GroupRows
from coterie.pipeline.findings.of_group import group_findings
from coterie.pipeline.findings.of_journal import journal_findings
from coterie.pipeline.findings.retention import OFFSETS_RETENTION_MS
from coterie.pipeline.tables import TABLES
from coterie.pipeline.timeline.from_journal import journal_history
from coterie.pipeline.transforms.commit_runs import MINUTES
from coterie.pipeline.transforms.histories import GroupRecords, history_rows
from tests.pipeline.timeline.facts import began, completed, flapping, joined, member_of, removed

NOW_MS = 1_760_000_400_000


def dead() -> list[Any]:
    """Return a member whose session expires, and another that gets its partitions."""
    return [
        joined(NOW_MS - 90_000, "a"),
        began(NOW_MS - 90_000, "join", "a", 0, state="Empty"),
        completed(NOW_MS - 89_000, 1, NOW_MS - 90_000, member_of("a", "a-0"), member_of("b")),
        removed(NOW_MS - 40_000, "a", "session expiry"),
        began(NOW_MS - 40_000, "session expiry", "a", 1),
        completed(NOW_MS - 39_000, 2, NOW_MS - 40_000, member_of("b", "a-0")),
    ]


@pytest.mark.parametrize(
    ("facts", "rule"),
    [
        (flapping(NOW_MS - 600_000, 6, 40_000), "rebalance_storm"),
        (flapping(NOW_MS - 3_000_000, 4, 200_000), "flapping_member"),
        (dead(), "expired_member"),
    ],
)
def test_journal_and_tables_give_the_same_findings(
    facts: list[Any], rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = journal_history("g", facts)
    monkeypatch.setattr("coterie.pipeline.transforms.histories.histories_of", lambda *_: [history])
    tables = history_rows([GroupRecords("g", [], [], [])], {})
    rows = GroupRows(
        "g",
        tables["rebalances"],
        tables["ownership"],
        tables["member_sessions"],
        pa.Table.from_pylist([], TABLES["group_generations"].schema),
        pa.Table.from_pylist([], MINUTES),
        pa.Table.from_pylist([], TABLES["lag_1m"].schema),
    )
    of_tables = group_findings(rows, NOW_MS, OFFSETS_RETENTION_MS)
    (of_journal,) = journal_findings("g", facts, NOW_MS)
    assert of_journal.rule == rule
    assert of_tables == [of_journal]


def test_member_that_joined_before_the_first_fact_is_found() -> None:
    (found,) = journal_findings("g", [removed(NOW_MS, "a", "session expiry")], NOW_MS)
    assert (found.rule, found.subject) == ("expired_member", "client-a at 127.0.0.1")
