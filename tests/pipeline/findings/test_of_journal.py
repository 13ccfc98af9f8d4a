"""`groups check` and the page have one rule set [pipeline/one-finding-a-cause]."""

import pytest

pytest.importorskip("pyarrow", reason="needs pip install coterie[pipeline]")

from typing import Any

import pyarrow as pa

from coterie.pipeline.findings.across import ACROSS, ACROSS_SESSIONS, all_findings
from coterie.pipeline.findings.group import GroupRows
from coterie.pipeline.findings.of_group import group_findings
from coterie.pipeline.findings.of_journal import journal_findings
from coterie.pipeline.findings.retention import OFFSETS_RETENTION_MS
from coterie.pipeline.tables import TABLES
from coterie.pipeline.timeline.combined import group_history
from coterie.pipeline.transforms.commit_runs import MINUTES
from coterie.pipeline.transforms.histories import GroupRecords, history_rows
from coterie.protocol.messages.consumer_group_facts import GroupEpochRaised
from coterie.protocol.messages.partition_facts import PartitionLoaded
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


def unsettled() -> list[Any]:
    """Return facts of a consumer group one of whose members changes its subscription all the time.

    [pipeline/unsettled]
    """
    return [
        GroupEpochRaised(
            at_ms=NOW_MS - 600_000 + 50_000 * number,
            epoch=2 + number,
            cause="subscription",
            member_count=3,
            member_id="c" if number % 4 else "d",
            client_id="c" if number % 4 else "d",
            client_host="/h",
        )
        for number in range(12)
    ]


def group_rows(facts: list[Any], monkeypatch: pytest.MonkeyPatch) -> GroupRows:
    """Return the rows of the tables that a run makes of facts."""
    history = group_history("g", facts, ())
    monkeypatch.setattr("coterie.pipeline.transforms.histories.history_of", lambda *_: history)
    tables = history_rows([GroupRecords("g", [], [], [])], {})
    return GroupRows(
        "g",
        tables["rebalances"],
        tables["ownership"],
        tables["member_sessions"],
        pa.Table.from_pylist([], TABLES["group_generations"].schema),
        pa.Table.from_pylist([], MINUTES),
        pa.Table.from_pylist([], TABLES["lag_1m"].schema),
        tables["epoch_bumps"],
        tables["epoch_handovers"],
        *(
            TABLES[name].schema.empty_table()
            for name in ("share_partitions", "poison_records", "share_deliveries")
        ),
    )


@pytest.mark.parametrize(
    ("facts", "rule"),
    [
        (flapping(NOW_MS - 600_000, 6, 40_000), "rebalance_storm"),
        (flapping(NOW_MS - 3_000_000, 4, 200_000), "flapping_member"),
        (dead(), "expired_member"),
        (unsettled(), "unsettled_epochs"),
    ],
)
def test_journal_and_tables_give_the_same_findings(
    facts: list[Any], rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = group_rows(facts, monkeypatch)
    of_tables = group_findings(rows, NOW_MS, OFFSETS_RETENTION_MS)
    (of_journal,) = journal_findings({"g": facts}, NOW_MS)["g"]
    assert of_journal.rule == rule
    assert of_tables == [of_journal]


def test_member_that_joined_before_the_first_fact_is_found() -> None:
    (found,) = journal_findings({"g": [removed(NOW_MS, "a", "session expiry")]}, NOW_MS)["g"]
    assert (found.rule, found.subject) == ("expired_member", "client-a at 127.0.0.1")


LOADED_MS = NOW_MS - 50_500


def restarted(heard_ms: int) -> list[Any]:
    """Return the facts of `dead` on a broker that loaded its partitions before."""
    before, after = dead()[:3], dead()[3:]
    after[0].last_heard_ms = heard_ms
    loaded = PartitionLoaded(at_ms=LOADED_MS, partition=0, group_count=1, member_count=2)
    return [*before, loaded, *after]


@pytest.mark.parametrize(
    ("heard_ms", "rule"),
    [(LOADED_MS + 40, "broker_restart"), (LOADED_MS + 9_000, "expired_member")],
)
def test_restart_of_the_broker_is_one_answer(
    heard_ms: int, rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who sent nothing since the broker was there again was lost with it: `groups check` says so
    like the page, and names nobody as expired. Who sent heartbeats meanwhile died by itself.
    """
    facts = restarted(heard_ms)
    (of_journal,) = journal_findings({"g": facts}, NOW_MS)["g"]
    assert (of_journal.rule, of_journal.group_id) == (rule, "g")
    rows = group_rows(facts, monkeypatch)
    (of_tables,) = all_findings(
        group_findings(rows, NOW_MS, OFFSETS_RETENTION_MS),
        rows.rebalances.select(ACROSS),
        [LOADED_MS],
        NOW_MS,
        rows.member_sessions.select(ACROSS_SESSIONS),
        [LOADED_MS - 900, LOADED_MS + 100],
    )
    assert of_tables.rule == rule
    if rule == "broker_restart":
        said = "did not come back: client-a at 127.0.0.1; the coordinator loaded its partitions at"
        assert said in of_tables.evidence
        assert of_journal.evidence.startswith(said)


def loaded_together(groups: int) -> dict[str, list[Any]]:
    """Return groups whose members join again and again after the coordinator was loaded."""
    loaded_ms, formed_ms = NOW_MS - 400_000, NOW_MS - 900_000
    members = [member_of(name, f"a-{partition}") for partition, name in enumerate("abc")]
    histories: dict[str, list[Any]] = {}
    for number in range(groups):
        facts = histories[f"g{number}"] = [
            joined(formed_ms, "a"),
            began(formed_ms, "join", "a", 0, state="Empty"),
            completed(formed_ms + 1_000, 1, formed_ms, *members),
            PartitionLoaded(at_ms=loaded_ms, partition=number, group_count=1, member_count=2),
        ]
        for generation in range(1, 12):
            at_ms = loaded_ms + 4_500 * generation + 100 * number
            facts += [
                began(at_ms, "join", "abc"[generation % 3], generation),
                completed(at_ms + 1_000, generation + 1, at_ms, *members),
            ]
    return histories


def test_what_touched_many_groups_is_found_in_all_of_them() -> None:
    """As on the page, it explains the storms of its groups [pipeline/broker-restart]."""
    few, many = loaded_together(2), loaded_together(8)
    found = journal_findings(few, NOW_MS)
    assert [each.rule for of_group in found.values() for each in of_group] == [
        "rebalance_storm", "rebalance_storm",
    ]  # fmt: skip
    calm = {"calm": many["g0"][:3]}
    found = journal_findings(many | calm, NOW_MS)
    assert found.pop("calm") == []
    (finding,) = {each for of_group in found.values() for each in of_group}
    assert all(of_group == [finding] for of_group in found.values())
    assert (finding.rule, finding.group_id) == ("broker_restart", None)
    assert finding.groups == tuple(sorted(many))
    assert finding.evidence.startswith("8 of 9 groups rebalanced within")
