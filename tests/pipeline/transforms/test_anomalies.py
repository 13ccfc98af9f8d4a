"""Every rule on tables with and without its fault, in one evaluation [pipeline/findings]."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.slow, pytest.mark.timeout(600)]

MINUTE_S = 60
HOUR_S = 3600
START_S = 1_760_000_400  # a full hour
MEMBER = "member_key string, topics array<string>, assigned array<struct<topic string, p int>>"


def at(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(START_S + seconds, UTC)


def rebalance(group: str, generation: int, seconds: float, excess: int = 0) -> tuple[Any, ...]:
    return (group, generation, at(seconds), at(seconds + 1), "join", 9, excess, "range")


def session(group: str, member: str, began: float, ended: float | None, **by: str) -> Any:
    key = by.get("instance", member)
    kind = None if ended is None else "session expiry"
    return (group, key, member, by.get("client", member), "/h", at(began), at(ended), kind)


def minute(
    group: str, seconds: float, partition: int = 0, rewound: int | None = None
) -> tuple[Any, ...]:
    first, last = at(seconds), at(seconds + 30)
    back = 0 if rewound is None else 1
    return (group, "a", partition, first, 5, 5, back, 70, rewound, rewound, first, last)


def lag(group: str, seconds: float, *, stalled: bool | None) -> tuple[Any, ...]:
    return (group, "a", 0, at(seconds), 50, 11, stalled)


def generation(group: str, number: int, *counts: int, topics: str = "a") -> tuple[Any, ...]:
    members = [
        (f"m{index}", [topics if index else "a"], [("a", each) for each in range(count)])
        for index, count in enumerate(counts)
    ]
    return (group, number, "range", "Stable", at(0), at(0), members)


def made(spark: "SparkSession", schema: str, rows: list[Any]) -> "DataFrame":
    return spark.createDataFrame(rows, schema)


def faults() -> tuple[list[Any], ...]:
    """Return rows of the tables of the rules, in the order of `Tables`."""
    day = 24 * HOUR_S
    rebalances = [rebalance("storm", each, each * MINUTE_S) for each in range(6)]
    rebalances += [rebalance("calm", each, each * 5 * MINUTE_S) for each in range(6)]
    rebalances += [rebalance("wasteful", 1, 0, excess=3), rebalance("calm", 9, 7200, excess=1)]
    rebalances += [rebalance(name, 1, 0) for name in ("lopsided", "halves", "even", "mixed")]
    # The end of the records. By then the offsets of "idle" expire within a day.
    rebalances += [rebalance("later", 1, 6.5 * day)]
    ownership = [
        (name, "a", partition, at(began), at(ended))
        for name, partition, began, ended in (
            ("zombie", 0, 0, 600), ("zombie", 1, 0, None),
            ("sound", 0, 0, 600), ("sound", 0, 603, None),
            ("empty", 0, 0, 600),
        )
    ]  # fmt: skip
    sessions = [
        session("g", f"x-{each}", each * 200, each * 200 + 100, client="x") for each in range(3)
    ]
    sessions += [
        session("g", f"s-{each}", each * 200, each * 200 + 100, instance="s") for each in range(4)
    ]
    # Equally often, but after long sessions, or at long intervals.
    sessions += [session("g", f"y-{each}", each * 10, 400 + each, client="y") for each in range(3)]
    sessions += [
        session("g", f"z-{each}", each * 1200, each * 1200 + 100, client="z") for each in range(3)
    ]
    sessions += [session("busy", "m", 0, None), session("idle", "m", 0, 1000)]
    sessions += [session("fresh", "m", 0, 5 * day)]
    minutes = [minute("back", 0, rewound=12), minute("back", 60)]
    minutes += [minute("zombie", 660), minute("zombie", 300), minute("sound", 605)]
    # The group has no members at that time: its offsets are reset with a tool.
    minutes += [minute("empty", 900)]
    minutes += [minute(name, 0) for name in ("busy", "idle", "fresh", "alone")]
    minutes += [minute("alone-fresh", 6 * day)]
    lags = [lag("stuck", each * 60, stalled=each in (2, 3, 6)) for each in range(8)]
    lags += [lag("unknown", 0, stalled=None)]
    generations = [
        generation("lopsided", 1, 4, 1),
        generation("even", 1, 4, 3),
        # One member reads more topics; and a generation inside a cooperative rebalance.
        generation("mixed", 1, 4, 1, topics="b"),
        generation("halves", 5, 4, 0),
    ]
    return rebalances, ownership, sessions, generations, minutes, lags


def tables_of(spark: "SparkSession") -> Any:
    from coterie.pipeline.transforms.anomalies import Tables

    rebalances, ownership, sessions, generations, minutes, lags = faults()
    columns = "group_id string, topic string, partition int, "
    return Tables(
        made(
            spark,
            "group_id string, to_generation int, started_ts timestamp, completed_ts timestamp,"
            " trigger string, moved int, excess_moved int, protocol string",
            rebalances,
        ),
        made(spark, columns + "from_ts timestamp, to_ts timestamp", ownership),
        made(
            spark,
            "group_id string, member_key string, member_id string, client_id string,"
            " client_host string, first_seen_ts timestamp, last_seen_ts timestamp,"
            " exit_kind string",
            sessions,
        ),
        made(
            spark,
            "group_id string, generation int, protocol string, state string,"
            f" record_ts timestamp, state_ts timestamp, members array<struct<{MEMBER}>>",
            generations,
        ),
        made(
            spark,
            columns + "window_start_ts timestamp, commits bigint, advance bigint, rewinds bigint,"
            " last_offset bigint, rewound_by bigint, rewound_offset bigint, first_ts timestamp,"
            " last_ts timestamp",
            minutes,
        ),
        made(
            spark,
            columns + "window_start_ts timestamp, committed_offset bigint, lag bigint,"
            " stalled boolean",
            lags,
        ),
    )


def test_each_rule_fires_on_its_fault_and_on_nothing_else(spark: "SparkSession") -> None:
    from coterie.pipeline.tables import TABLES
    from coterie.pipeline.transforms.anomalies import RULES, anomalies

    frame = anomalies(tables_of(spark))
    assert frame.columns == TABLES["anomalies"].schema.names
    rows = frame.collect()
    found = [
        (row["rule"], row["group_id"], row["subject"], row["value"])
        for row in rows
        if row["rule"] != "group_about_to_expire"
    ]
    assert sorted(found, key=repr) == sorted(
        [
            ("rebalance_storm", "storm", None, 6.0),
            ("flapping_member", "g", "x/h", 3.0),
            ("flapping_member", "g", "s", 4.0),
            ("rewind", "back", "a-0", 12.0),
            ("zombie_commit", "zombie", "a-0", 5.0),
            ("stalled_partition", "stuck", "a-0", 11.0),
            ("stalled_partition", "stuck", "a-0", 11.0),
            ("needless_moves", "wasteful", None, 3.0),
            ("unbalanced_assignment", "lopsided", None, 3.0),
        ],
        key=repr,
    )
    expiring = {row["group_id"] for row in rows if row["rule"] == "group_about_to_expire"}
    assert {"idle", "alone"} <= expiring
    assert not {"busy", "fresh", "alone-fresh"} & expiring
    assert {row["rule"] for row in rows} == {rule.name for rule in RULES}
