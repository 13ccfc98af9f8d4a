"""One group's story: from the tables of a run, or straight from a broker's data directory.

The second needs no run before it and no Java: the codec reads the group's facts and generations
(`coterie.journal`, `__consumer_offsets`), and the timeline works them out as a run would.
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
from coterie.protocol.errors import MalformedFrame
from coterie.protocol.messages.journal_records import UnknownFact, decode_fact
from coterie.protocol.topic_names import JOURNAL_TOPIC, OFFSETS_TOPIC

Row = dict[str, Any]

# Where the groups stand that have a story.
_GROUP_VIEWS = (
    (JOURNAL_TOPIC, "journal"),
    (OFFSETS_TOPIC, "groups"),
    (OFFSETS_TOPIC, "consumer_epochs"),
)


def read_story(
    path: str, group_id: str, topic_names: Mapping[str, str] | None = None
) -> Story | None:
    """The story of a group; None where nothing is known of it.

    Args:
        path: an output directory of `coterie pipeline run`, or a broker's data directory.
        group_id: whose.
        topic_names: by topic id, for the KIP-848 groups of a data directory.

    Raises:
        StoreError: the output directory can't be read.
        NoSuchLog: it is neither.
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
    """The groups that have a story in an output directory, or in the journal of a data directory.

    Raises:
        StoreError: the output directory can't be read.
        NoSuchLog: it is neither.
    """
    if os.path.exists(os.path.join(path, MANIFEST)):
        return group_ids(Store.reading(path))
    found: set[str] = set()
    for topic, view in _GROUP_VIEWS:
        for rows in _views(path, topic, view, None):
            found.update(rows.column("group_id").unique().to_pylist())
    return sorted(found - {None})


def _from_data(path: str, group_id: str, topic_names: Mapping[str, str]) -> Story:
    # Imported here: it brings Spark's Python half with it, which tables do without.
    from coterie.pipeline.transforms.histories import generations_of

    both = [_found(path, topic) for topic in (JOURNAL_TOPIC, OFFSETS_TOPIC)]
    if both == [None, None]:
        raise NoSuchLog(
            f"{path} has neither a {MANIFEST}, as the output of `coterie pipeline run` has, nor"
            f" partitions of {JOURNAL_TOPIC} or {OFFSETS_TOPIC}, as a broker's data directory has"
        )
    epochs = _rows_of(path, "consumer_epochs", group_id)
    if epochs:
        return story_of(epochs_history(group_id, epochs, topic_names))
    logged = list(generations_of(_rows_of(path, "groups", group_id)))
    return story_of(group_history(group_id, list(facts_of(path, group_id)), logged))


def facts_of(path: str, group_id: str) -> Iterator[Any]:
    """What the journal has of a group, in order; what this release does not know is left out."""
    wanted = group_id.encode()
    for rows in _views(path, JOURNAL_TOPIC, "raw", group_id):
        pairs = zip(rows.column("key").to_pylist(), rows.column("value").to_pylist(), strict=True)
        for key, value in pairs:
            # Behind the record's type and the length of the id.
            if key is None or key[4:] != wanted:
                continue
            try:
                fact = decode_fact(key, value).fact
            except MalformedFrame:
                continue
            if not isinstance(fact, UnknownFact):
                yield fact


def _rows_of(path: str, view: str, group_id: str) -> list[Row]:
    """The rows of a group in a view of `__consumer_offsets`, in order."""
    import pyarrow.compute as pc

    found: list[Row] = []
    for rows in _views(path, OFFSETS_TOPIC, view, group_id):
        found += rows.filter(pc.equal(rows.column("group_id"), group_id)).to_pylist()
    return found


def _views(path: str, topic: str, view: str, group_id: str | None) -> Iterator[Any]:
    """The rows of a view, of the partitions that can hold a group; none where there is no log."""
    partitions = _found(path, topic)
    if partitions is None:
        return
    for number, directory in pruned(partitions, None, group_id, None).items():
        for step in read_range(LogRange(directory, number, 0), view):
            yield step.rows


def _found(path: str, topic: str) -> dict[int, str] | None:
    """The partitions of a topic in a data directory, if it has any."""
    try:
        return find_partitions(path, topic)
    except NoSuchLog:
        return None
