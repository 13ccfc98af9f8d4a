"""Every rule on rows with and without its fault [pipeline/one-finding-a-cause].

Rules: [pipeline/one-finding-a-cause], [pipeline/flapping-member].
"""

import pytest

pytest.importorskip("pyarrow", reason="needs pip install coterie[pipeline]")

from coterie.pipeline.findings.across import RULES, finding_rows
from coterie.pipeline.tables import TABLES
from coterie.protocol.fields import uuid_text
from tests.pipeline.findings.rows import (
    DAY_S,
    MINUTE_S,
    Row,
    found,
    generation,
    lag,
    minute,
    of_rule,
    owned,
    rebalance,
    session,
)


def faults() -> dict[str, list[Row]]:
    """Return rows with one fault of each rule that concerns one group."""
    rebalances = [rebalance("storm", each, each * MINUTE_S) for each in range(6)]
    rebalances += [rebalance("calm", each, each * 5 * MINUTE_S) for each in range(6)]
    rebalances += [
        rebalance("wasteful", 1, 0, excess_moved=3),
        rebalance("calm", 9, 7200, excess_moved=1),
    ]
    rebalances += [rebalance(name, 1, 0) for name in ("lopsided", "halves", "even", "mixed")]
    # The end of the records. By then the offsets of "idle" expire within a day.
    rebalances += [rebalance("later", 1, 6.5 * DAY_S)]
    ownership = [
        owned("zombie", 0, 0, 600), owned("zombie", 1, 0, None),
        owned("sound", 0, 0, 600), owned("sound", 0, 603, None),
        owned("empty", 0, 0, 600), owned("upgraded", 0, 0, 600),
    ]  # fmt: skip
    # A consumer group owns the topic under its id, because its name is not known.
    ownership += [owned("upgraded", 0, 600, None) | {"topic": uuid_text(bytes(16))}]
    sessions = [session("g", f"x-{n}", n * 200, n * 200 + 100, "x") for n in range(3)]
    sessions += [
        session("g", "s", n * 200, n * 200 + 100, "s", identity="s", member_id=f"s-{n}")
        for n in range(4)
    ]
    # Equally often, but after long sessions, at long intervals, or as three processes at once.
    sessions += [session("g", f"y-{n}", n * 10, 400 + n, "y") for n in range(3)]
    sessions += [session("g", f"z-{n}", n * 1200, n * 1200 + 100, "z") for n in range(3)]
    sessions += [session("g", f"w-{n}", n, 100 + n, "w") for n in range(3)]
    sessions += [session("busy", "m", 0, None), session("idle", "m", 0, 1000)]
    sessions += [session("fresh", "m", 0, 5 * DAY_S), session("back", "m", 0, None)]
    sessions += [session("stuck", "m", 0, None)]
    minutes = [minute("back", 0, rewound=12), minute("back", 60), minute("set", 0, rewound=3)]
    minutes += [minute("zombie", 660), minute("zombie", 300), minute("sound", 605)]
    minutes += [minute("upgraded", 660)]
    # The group has no members at that time: its offsets are reset with a tool.
    minutes += [minute("empty", 900)]
    minutes += [minute(name, 0) for name in ("busy", "idle", "fresh", "alone")]
    minutes += [minute("alone-fresh", 6 * DAY_S)]
    lags = [lag("stuck", each * 60, stalled=each in (2, 3, 6)) for each in range(8)]
    lags += [lag("unknown", 0, stalled=None)]
    generations = [
        generation("lopsided", 1, 4, 1),
        generation("even", 1, 4, 3),
        # One member reads more topics; and a generation inside a cooperative rebalance.
        generation("mixed", 1, 4, 1, topics="b"),
        generation("halves", 5, 4, 0),
    ]
    return {
        "rebalances": rebalances,
        "ownership": ownership,
        "member_sessions": sessions,
        "group_generations": generations,
        "minutes": minutes,
        "lag_1m": lags,
    }


def test_each_rule_fires_on_its_fault_and_on_nothing_else() -> None:
    findings = found(faults())
    expiring = {each.group_id for each in of_rule(findings, "group_about_to_expire")}
    assert {"idle", "alone"} <= expiring
    assert not {"busy", "fresh", "alone-fresh"} & expiring
    rows = [
        (each.rule, each.group_id, each.subject, each.value)
        for each in findings
        if each.rule != "group_about_to_expire"
    ]
    assert sorted(rows, key=repr) == sorted(
        [
            ("rebalance_storm", "storm", None, 6),
            ("flapping_member", "g", "x at h", 3),
            ("flapping_member", "g", "s", 4),
            ("rewind", "back", "a-0", 12),
            ("offsets_reset", "set", "a-0", 3),
            ("zombie_commit", "zombie", "a-0", 5),
            ("passed_stall", "stuck", "a-0", 11),
            ("needless_moves", "wasteful", None, 3),
            ("unbalanced_assignment", "lopsided", None, 3),
        ],
        key=repr,
    )


def test_findings_are_rows_of_the_table() -> None:
    findings = found(faults())
    rows = finding_rows(findings)
    assert [list(row) for row in rows][:1] == [TABLES["anomalies"].schema.names]
    assert [row["rank"] for row in rows] == list(range(1, len(rows) + 1))
    severities = {rule.name: rule.severity for rule in RULES}
    assert {row["severity"] for row in rows} <= set(severities.values())
