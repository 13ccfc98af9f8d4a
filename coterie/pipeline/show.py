"""The story of one group, from the tables of a run or directly from a broker's data directory.

A data directory needs no run before and no Java: the codec reads the group's facts and generations,
and the same timeline as in a run works out the history.
"""

import os
from collections.abc import Iterator, Mapping
from typing import Any

from coterie.pipeline.pruning import pruned
from coterie.pipeline.ranges import LogRange, read_range
from coterie.pipeline.report.history import Story, story_of
from coterie.pipeline.report.reading import group_ids, read_generations, read_group, read_moves
from coterie.pipeline.segments import NoSuchLog, find_partitions
from coterie.pipeline.store import MANIFEST, Store
from coterie.pipeline.timeline.combined import group_history
from coterie.pipeline.timeline.from_epochs import epochs_history
from coterie.pipeline.timeline.from_rows import generations_of
from coterie.protocol.errors import MalformedFrame
from coterie.protocol.messages.journal_records import UnknownFact, decode_fact
from coterie.protocol.topic_names import JOURNAL_TOPIC, OFFSETS_TOPIC

Row = dict[str, Any]

# The views in which groups with a story are found.
_GROUP_VIEWS = (
    (JOURNAL_TOPIC, "journal"),
    (OFFSETS_TOPIC, "groups"),
    (OFFSETS_TOPIC, "consumer_epochs"),
)


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
    if os.path.exists(os.path.join(path, MANIFEST)):
        store = Store.reading(path)
        group = read_group(store, group_id)
        story = Story(group, read_moves(store, group_id), read_generations(store, group_id))
    else:
        story = _from_data(path, group_id, topic_names or {})
    known = any(story.group.tables.values())
    return story if known else None


def known_groups(path: str) -> list[str]:
    """Return the groups that have a story in an output directory or in a data directory.

    Raises:
        StoreError: the output directory cannot be read.
    """
    if os.path.exists(os.path.join(path, MANIFEST)):
        return group_ids(Store.reading(path))
    found: set[str] = set()
    for topic, view in _GROUP_VIEWS:
        for rows in _views(path, topic, view, None):
            found.update(rows.column("group_id").unique().to_pylist())
    return sorted(found - {None})


def _from_data(path: str, group_id: str, topic_names: Mapping[str, str]) -> Story:
    both = [_partitions(path, topic) for topic in (JOURNAL_TOPIC, OFFSETS_TOPIC)]
    if both == [None, None]:
        raise NoSuchLog(
            f"{path} is neither the output of `coterie pipeline run`, which has a {MANIFEST}, nor"
            " a broker's data directory, which has partitions of"
            f" {JOURNAL_TOPIC} or {OFFSETS_TOPIC}"
        )
    epochs = _rows_of(path, "consumer_epochs", group_id)
    if epochs:
        return story_of(epochs_history(group_id, epochs, topic_names))
    logged = list(generations_of(_rows_of(path, "groups", group_id)))
    return story_of(group_history(group_id, list(facts_of(path, group_id)), logged))


def facts_of(path: str, group_id: str) -> Iterator[Any]:
    """Yield the facts of a group in the journal, in order. Unknown facts are left out."""
    encoded_id = group_id.encode()
    for rows in _views(path, JOURNAL_TOPIC, "raw", group_id):
        pairs = zip(rows.column("key").to_pylist(), rows.column("value").to_pylist(), strict=True)
        for key, value in pairs:
            # A key is the record type, the length of the group id and the group id.
            if key is None or key[4:] != encoded_id:
                continue
            try:
                fact = decode_fact(key, value).fact
            except MalformedFrame:
                continue
            if not isinstance(fact, UnknownFact):
                yield fact


def _rows_of(path: str, view: str, group_id: str) -> list[Row]:
    """Read the rows of a group in a view of `__consumer_offsets`, in order."""
    import pyarrow.compute as pc

    found: list[Row] = []
    for rows in _views(path, OFFSETS_TOPIC, view, group_id):
        found += rows.filter(pc.equal(rows.column("group_id"), group_id)).to_pylist()
    return found


def _views(path: str, topic: str, view: str, group_id: str | None) -> Iterator[Any]:
    """Read a view of the partitions that can contain a group; no rows if there is no log."""
    partitions = _partitions(path, topic)
    if partitions is None:
        return
    for number, directory in pruned(partitions, None, group_id, None).items():
        for step in read_range(LogRange(directory, number, 0), view):
            yield step.rows


def _partitions(path: str, topic: str) -> dict[int, str] | None:
    """Return the partitions of a topic in a data directory; None if it has none."""
    try:
        return find_partitions(path, topic)
    except NoSuchLog:
        return None
