"""Output directories like those of a run, written with pyarrow alone, and groups to fill them."""

import json
import os
import random
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from coterie.assignors.model import MemberSubscription, TopicPartition
from coterie.assignors.range import assign_range
from coterie.pipeline.report.content import Row
from coterie.pipeline.report.history import CompletedGeneration, story_of
from coterie.pipeline.tables import TABLES
from coterie.pipeline.timeline.from_journal import journal_history
from coterie.pipeline.timeline.model import GroupHistory
from tests.pipeline.timeline.facts import began, completed, join_done, joined, member_of, removed

# 2026-11-01 00:00:00 UTC.
START_MS = 1_793_491_200_000
MINUTE_MS = 60_000


def write_store(
    path: str, tables: Mapping[str, Iterable[Row]], inputs: Iterable[str] = ("/data",)
) -> str:
    """Write an output directory with these rows, whose times are epoch milliseconds.

    Returns:
        The path.
    """
    parts = {}
    for name, rows in tables.items():
        schema = TABLES[name].schema
        directory = os.path.join(path, name, "part=000000")
        os.makedirs(directory)
        file = os.path.join(directory, "part-0.parquet")
        found = [_filled(row, schema) for row in rows]
        pq.write_table(pa.Table.from_pylist(found, schema), file)
        parts[name] = {"part=000000": {"rows": len(found), "bytes": os.path.getsize(file)}}
    manifest = {
        "version": 1,
        "next_run": 1,
        "inputs": {each: {} for each in inputs},
        "tables": parts,
        "runs": [],
    }
    os.makedirs(path, exist_ok=True)
    with open(os.path.join(path, "manifest.json"), "w", encoding="utf-8") as file_:
        json.dump(manifest, file_)
    return path


def _filled(row: Row, schema: pa.Schema) -> Row:
    return {
        field.name: datetime.fromtimestamp(row[field.name] / 1000, UTC)
        if pa.types.is_timestamp(field.type) and row.get(field.name) is not None
        else row.get(field.name)
        for field in schema
    }


def tables_of(*histories: GroupHistory) -> dict[str, list[Row]]:
    """Return the gold and silver rows of histories."""
    tables: dict[str, list[Row]] = {
        name: []
        for name in (
            "rebalances",
            "ownership",
            "member_sessions",
            "partition_moves",
            "group_events",
        )
    }
    for history in histories:
        story = story_of(history)
        for name in ("rebalances", "ownership", "member_sessions"):
            tables[name] += story.group.tables[name]
        tables["partition_moves"] += story.moves
        tables["group_events"] += [_completed(history.group_id, each) for each in story.generations]
    return tables


def _completed(group_id: str, found: CompletedGeneration) -> Row:
    """Return a completed generation as a row of `group_events`."""
    members = [
        {
            "member_key": key,
            "assigned": [{"topic": topic, "partition": number} for topic, number in places],
        }
        for key, places in found.owned.items()
    ]
    return {
        "group_id": group_id,
        "fact": "generation_completed",
        "generation": found.generation,
        "at_ts": found.at_ms,
        "detail": json.dumps({"members": members}),
    }


def busy_group(
    group_id: str, rebalances: int, *, members: int = 8, partitions: int = 24, seed: int = 1
) -> GroupHistory:
    """Return a group whose members join, leave and fail, and whose assignor moves much."""
    return journal_history(
        group_id, _busy(rebalances, members, [("a", partitions)], random.Random(seed))
    )


def _busy(
    rebalances: int, most: int, topics: list[tuple[str, int]], chance: random.Random
) -> Iterator[Any]:
    here: list[str] = []
    at_ms = START_MS
    for generation in range(1, rebalances + 1):
        at_ms += chance.randrange(5_000, 15 * MINUTE_MS)
        if len(here) < 2 or (len(here) < most and chance.random() < 0.5):
            who = f"worker-{chance.randrange(1000):03d}"
            if who in here:
                continue
            yield joined(at_ms, who)
            yield began(at_ms, "join", who, generation - 1, state="Stable" if here else "Empty")
            here.append(who)
        elif chance.random() < 0.2:
            yield began(at_ms, "leader rejoin", here[0], generation - 1, reason="rebalance")
        else:
            who = here.pop(chance.randrange(len(here)))
            cause = chance.choice(["leave", "session expiry", "session expiry"])
            yield removed(at_ms, who, cause)
            yield began(at_ms, cause, who, generation - 1)
        yield from _generation(at_ms, generation, here, topics, chance)


def _generation(
    at_ms: int, generation: int, here: list[str], topics: list[tuple[str, int]], chance: Any
) -> Iterator[Any]:
    given = assign_range(
        dict(topics),
        [MemberSubscription(name, tuple(topic for topic, _ in topics), (), 0) for name in here],
    )
    waits = [chance.randrange(5, 3_000) for _ in here]
    yield join_done(at_ms + max(waits), generation, at_ms)
    yield completed(
        at_ms + max(waits) + 40,
        generation,
        at_ms,
        *[
            member_of(name, _text(given[name]), after=wait)
            for name, wait in zip(here, waits, strict=True)
        ],
        sync_ms=40,
    )


def _text(given: Iterable[TopicPartition]) -> str:
    return " ".join(f"{topic}-{partition}" for topic, partition in given)


def minutes_of(
    group_id: str, topic: str, partitions: int, minutes: int, *, known: bool = True
) -> dict[str, list[Row]]:
    """Return commits and lags of a number of minutes; in the middle the group is stalled."""
    velocity, lag = [], []
    for partition in range(partitions):
        committed = 0
        for minute in range(minutes):
            at_ms = START_MS + minute * MINUTE_MS
            stalled = minutes // 3 < minute < minutes // 2
            advance = 0 if stalled else 600 + 7 * partition + minute % 11
            committed += advance
            end = 640 * (minute + 1) if known else None
            place = {
                "group_id": group_id,
                "topic": topic,
                "partition": partition,
                "window_start_ts": at_ms,
            }
            if not stalled:
                moved = {"commits": 12, "advance": advance, "rewinds": 0, "last_offset": committed}
                velocity.append(place | moved)
            lag.append(
                place
                | {
                    "committed_offset": committed,
                    "log_end_offset": end,
                    "lag": None if end is None else max(0, end - committed),
                    "time_lag_ms": None if end is None else 1_500 * (end - committed),
                    "stalled": stalled,
                }
            )
    return {"commit_velocity_1m": velocity, "lag_1m": lag}
