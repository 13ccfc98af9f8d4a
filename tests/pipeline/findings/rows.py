"""Rows of the tables that the rules read, in short form."""

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from coterie.pipeline.findings.across import all_findings, end_of_records
from coterie.pipeline.findings.finding import Finding
from coterie.pipeline.findings.of_group import findings_by_group
from coterie.pipeline.findings.retention import OFFSETS_RETENTION_MS
from coterie.pipeline.tables import TABLES
from coterie.pipeline.transforms.commit_runs import MINUTES

Row = dict[str, Any]
MINUTE_S = 60
HOUR_S = 3600
DAY_S = 24 * HOUR_S
# A full hour: 2025-10-09 09:00:00 UTC.
START_S = 1_760_000_400


def at(seconds: float | None) -> int | None:
    """Return a time after the start in microseconds."""
    return None if seconds is None else round((START_S + seconds) * 1_000_000)


def rebalance(group: str, generation: int, seconds: float, **columns: Any) -> Row:
    """Return a rebalance that took a second, by default one that nobody is known to have caused."""
    row: Row = {
        "group_id": group,
        "from_generation": generation - 1 if generation > 1 else None,
        "to_generation": generation,
        "started_ts": at(seconds),
        "completed_ts": at(seconds + 1),
        "trigger": "join",
        "members": 3,
        "partitions": 6,
        "unowned_partition_ms": 6000,
        "moved": 9,
        "excess_moved": 0,
        "protocol": "range",
        "joined": ["m0"] if generation == 1 else [],
        "left": [],
    }
    return row | columns


def session(
    group: str, member: str, began: float, ended: float | None, client: str = "c", **columns: Any
) -> Row:
    """Return the session of a dynamic member on host h."""
    row = {
        "group_id": group,
        "member_key": member,
        "member_id": member,
        "client_id": client,
        "client_host": "/h",
        "identity": f"{client} at h",
        "first_seen_ts": at(began),
        "last_seen_ts": at(ended),
        "exit_kind": None if ended is None else "leave",
    }
    return row | columns


def minute(group: str, seconds: float, partition: int = 0, rewound: int | None = None) -> Row:
    """Return a minute with five commits, of which one went back if `rewound` is given."""
    return {
        "group_id": group,
        "topic": "a",
        "partition": partition,
        "window_start_ts": at(seconds),
        "commits": 5,
        "advance": 5,
        "rewinds": 0 if rewound is None else 1,
        "last_offset": 70,
        "rewound_by": rewound,
        "rewound_offset": rewound,
        "first_ts": at(seconds),
        "last_ts": at(seconds + 30),
    }


def lag(
    group: str, seconds: float, partition: int = 0, *, behind: int = 11, stalled: bool | None = True
) -> Row:
    """Return the lag of a partition at the end of a minute."""
    return {
        "group_id": group,
        "topic": "a",
        "partition": partition,
        "window_start_ts": at(seconds),
        "committed_offset": 50,
        "lag": behind,
        "stalled": stalled,
    }


def owned(group: str, partition: int, began: float, ended: float | None, member: str = "m") -> Row:
    """Return a time for which a member owned a partition."""
    return {
        "group_id": group,
        "topic": "a",
        "partition": partition,
        "member_key": member,
        "generation": 1,
        "from_ts": at(began),
        "to_ts": at(ended),
    }


def generation(group: str, number: int, *counts: int, topics: str = "a") -> Row:
    """Return a generation whose members have these numbers of partitions."""
    members = [
        {
            "member_id": f"m{index}",
            "topics": [topics if index else "a"],
            "assigned": [{"topic": "a", "partition": each} for each in range(count)],
        }
        for index, count in enumerate(counts)
    ]
    return {
        "group_id": group,
        "generation": number,
        "protocol": "range",
        "state": "Stable",
        "record_ts": at(0),
        "members": members,
    }


def found(
    rows: Mapping[str, list[Row]], loaded_ms: Iterable[int] = (), commits_ms: Iterable[int] = ()
) -> list[Finding]:
    """Return the findings of some groups.

    Args:
        rows: by table.
        loaded_ms: when a coordinator loaded a partition.
        commits_ms: when any group committed.
    """
    schemas = {
        "rebalances": TABLES["rebalances"].schema,
        "ownership": TABLES["ownership"].schema,
        "member_sessions": TABLES["member_sessions"].schema,
        "group_generations": TABLES["group_generations"].schema,
        "minutes": MINUTES,
        "lag_1m": TABLES["lag_1m"].schema,
        "epoch_bumps": TABLES["epoch_bumps"].schema,
        "epoch_handovers": TABLES["epoch_handovers"].schema,
        "share_partitions": TABLES["share_partitions"].schema,
        "poison_records": TABLES["poison_records"].schema,
        "expired_locks": TABLES["share_deliveries"].schema,
    }
    tables = {
        name: pa.Table.from_pylist(rows.get(name, []), schema) for name, schema in schemas.items()
    }
    ends = [
        row[column]
        for name, column in (
            ("minutes", "last_ts"), ("rebalances", "completed_ts"), ("lag_1m", "window_start_ts")
        )
        for row in rows.get(name, [])
    ]  # fmt: skip
    now_ms = end_of_records(each // 1000 for each in ends if each is not None)
    of_groups = findings_by_group(tables, now_ms, OFFSETS_RETENTION_MS)
    return all_findings(
        of_groups,
        tables["rebalances"],
        list(loaded_ms),
        now_ms,
        tables["member_sessions"],
        commits_ms,
    )


def of_rule(findings: list[Finding], rule: str) -> list[Finding]:
    """Return the findings of a rule."""
    return [each for each in findings if each.rule == rule]
