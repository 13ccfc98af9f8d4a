"""The story of one group, from the tables of a run or directly from a broker's data directory.

A data directory needs no run before and no Java: the group's facts and generations are read, and
the same timeline as in a run works out the history. Without numpy and pyarrow, `plain_log` reads
them instead of the codec. The tables of a run are Parquet and need pyarrow.
"""

import os
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from typing import Any, NamedTuple

from coterie.pipeline.plain_log import plain_rows
from coterie.pipeline.report.history import Story, story_of
from coterie.pipeline.segments import NoSuchLog, find_partitions
from coterie.pipeline.timeline.combined import group_history
from coterie.pipeline.timeline.departures import OPEN
from coterie.pipeline.timeline.from_rows import generations_of
from coterie.pipeline.timeline.model import Generation, Removed
from coterie.pipeline.timeline.with_departures import Commit, with_departures
from coterie.protocol.errors import MalformedFrame
from coterie.protocol.messages.journal_records import UnknownFact, decode_fact
from coterie.protocol.topic_names import JOURNAL_TOPIC, OFFSETS_TOPIC

_MANIFEST = "manifest.json"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# The codec needs these packages of the extra.
_CODEC_PACKAGES = ("numpy", "pyarrow")

Row = dict[str, Any]

# The tables of which at least one has rows of a group with a story.
_STORY_TABLES = ("rebalances", "ownership", "member_sessions")
# The views of the group log in which groups with a story are found.
_GROUP_VIEWS = ("groups", "consumer_epochs")


def read_story(
    path: str, group_id: str, topic_names: Mapping[str, str] | None = None
) -> Story | None:
    """Read the story of a group; None if nothing is known of it.

    Args:
        path: an output directory of `coterie pipeline run`, or a broker's data directory.
        group_id: the group.
        topic_names: names by topic id, for the KIP-848 groups of a data directory.

    Raises:
        StoreError: the output directory cannot be read.
        NoSuchLog: `path` is neither.
    """
    if os.path.exists(os.path.join(path, _MANIFEST)):
        # Imported here, because they need pyarrow.
        from coterie.pipeline.report.reading import read_generations, read_group, read_moves
        from coterie.pipeline.store import Store

        store = Store.reading(path)
        group = read_group(store, group_id)
        story = Story(group, read_moves(store, group_id), read_generations(store, group_id))
    else:
        story = _from_data(path, group_id, topic_names or {})
    # A group without management has findings and lags, but no story.
    known = any(story.group.tables[name] for name in _STORY_TABLES)
    return story if known else None


class Commits(NamedTuple):
    """The commits of a group without members, such as a consumer that assigns itself.

    Attributes:
        commits, partitions: how many commits there are, and of how many partitions.
        first_ms, last_ms: when the first and the last was made, or its minute began.
    """

    commits: int
    partitions: int
    first_ms: int
    last_ms: int


def read_commits(path: str, group_id: str) -> Commits | None:
    """Count the commits of a group; None if there are none.

    Args:
        path: see `read_story`.
        group_id: the group.

    Raises:
        StoreError: the output directory cannot be read.
    """
    if os.path.exists(os.path.join(path, _MANIFEST)):
        from coterie.pipeline.report.reading import read_minutes
        from coterie.pipeline.store import Store

        minutes = read_minutes(Store.reading(path), group_id)
        found = [
            (row["topic"], row["partition"], row["window_start_ts"], row["commits"])
            for row in minutes
        ]
    else:
        found = [
            (each.topic, each.partition, each.at_us // 1000, 1)
            for each in _commits_of(path, group_id)
        ]
    if not found:
        return None
    times = [at_ms for _, _, at_ms, _ in found]
    places = {(topic, partition) for topic, partition, _, _ in found}
    commits = sum(count for _, _, _, count in found)
    return Commits(commits, len(places), min(times), max(times))


def known_groups(path: str) -> list[str]:
    """Return the groups that have a story in an output directory or in a data directory.

    Raises:
        StoreError: the output directory cannot be read.
    """
    if os.path.exists(os.path.join(path, _MANIFEST)):
        from coterie.pipeline.report.reading import group_ids
        from coterie.pipeline.store import Store

        return group_ids(Store.reading(path))
    found = {
        row["group_id"] for view in _GROUP_VIEWS for row in _rows(path, OFFSETS_TOPIC, view, None)
    }
    for row in _rows(path, JOURNAL_TOPIC, "raw", None):
        try:
            found.add(decode_fact(row["key"], row["value"]).group_id)
        except (MalformedFrame, UnicodeDecodeError):
            continue
    return sorted(found - {None, ""})


def _from_data(path: str, group_id: str, topic_names: Mapping[str, str]) -> Story:
    both = [_partitions(path, topic) for topic in (JOURNAL_TOPIC, OFFSETS_TOPIC)]
    if both == [None, None]:
        raise NoSuchLog(
            f"{path} is neither the output of `coterie pipeline run`, which has a {_MANIFEST}, nor"
            " a broker's data directory, which has partitions of"
            f" {JOURNAL_TOPIC} or {OFFSETS_TOPIC}"
        )
    epochs = _rows_of(path, "consumer_epochs", group_id)
    logged, facts = logged_of(path, group_id), list(facts_of(path, group_id))
    history = group_history(group_id, facts, logged, epochs, topic_names)
    if any(session.exit_kind == OPEN for session in history.sessions):
        history = with_departures(history, _commits_of(path, group_id))
    return story_of(history)


def _commits_of(path: str, group_id: str) -> Iterator[Commit]:
    """Yield the commits of a group."""
    for row in _rows(path, OFFSETS_TOPIC, "commits", group_id):
        at = row["record_ts"]
        if row["group_id"] == group_id and at is not None:
            at_us = (at - _EPOCH) // timedelta(microseconds=1)
            yield Commit(row["topic"], row["partition"], at_us)


def logged_of(path: str, group_id: str) -> Iterator[Generation | Removed]:
    """Yield the logged generations of a classic group and its ends, in order."""
    return generations_of(_rows_of(path, "groups", group_id))


def facts_of(path: str, group_id: str) -> Iterator[Any]:
    """Yield the facts of a group in the journal, in order. Unknown facts are left out."""
    encoded_id = group_id.encode()
    for row in _rows(path, JOURNAL_TOPIC, "raw", group_id):
        key = row["key"]
        # A key is the record type, the length of the group id and the group id.
        if key is None or key[4:] != encoded_id:
            continue
        try:
            fact = decode_fact(key, row["value"]).fact
        except MalformedFrame:
            continue
        if not isinstance(fact, UnknownFact):
            yield fact


def _rows_of(path: str, view: str, group_id: str) -> list[Row]:
    """Read the rows of a group in a view of `__consumer_offsets`, in order."""
    rows = _rows(path, OFFSETS_TOPIC, view, group_id)
    return [row for row in rows if row["group_id"] == group_id]


def _rows(path: str, topic: str, view: str, group_id: str | None) -> Iterator[Row]:
    """Read a view of the partitions that can contain a group; no rows if there is no log."""
    partitions = _partitions(path, topic)
    if not partitions:
        return
    if not all(map(find_spec, _CODEC_PACKAGES)):
        for directory in partitions.values():
            yield from plain_rows(directory, view)
        return
    import pyarrow.compute as pc

    from coterie.pipeline.pruning import pruned
    from coterie.pipeline.ranges import LogRange, read_range

    for number, directory in pruned(partitions, None, group_id, None).items():
        for step in read_range(LogRange(directory, number, 0), view):
            rows = step.rows
            if view != "raw" and group_id is not None:
                rows = rows.filter(pc.equal(rows.column("group_id"), group_id))
            if view == "commits":
                # There can be millions of them.
                rows = rows.select(["group_id", "topic", "partition", "record_ts"])
            yield from rows.to_pylist()


def _partitions(path: str, topic: str) -> dict[int, str] | None:
    """Return the partitions of a topic in a data directory; None if it has none."""
    try:
        return find_partitions(path, topic)
    except NoSuchLog:
        return None
