"""The topics of the cluster, as a coordinator sees them.

A coordinator looks topics up in the image, which has the present state and a version that ascends
with each change. Its method `topics_changed` gets the notice of a change, after the image has it.
The notice of a deletion comes when the topic cannot come back; the deletion is complete when the
offsets of the topic are durably deleted [topics/whole-deletion].
"""

from collections.abc import Iterable
from typing import NamedTuple


class TopicImage(NamedTuple):
    """A topic.

    Attributes:
        name, topic_id: its name, and its id of 16 bytes.
        partitions: how many it has.
        racks: for each partition the racks of its replicas; empty if no broker has a rack.
    """

    name: str
    topic_id: bytes
    partitions: int
    racks: tuple[frozenset[str], ...] = ()


class TopicChange(NamedTuple):
    """What happened to a topic.

    Attributes:
        before: the topic before it; None if it was created.
        now: the topic now; None if it was deleted.
    """

    before: TopicImage | None
    now: TopicImage | None


def deletion(name: str, topic_id: bytes) -> TopicChange:
    """Return the change by which a topic was deleted."""
    return TopicChange(TopicImage(name, topic_id, 0), None)


# So many latest changes are kept: those of deleted topics have no other bound.
_MOST_CHANGES = 10_000


class TopicsImage:
    """All topics.

    Attributes:
        by_name, by_id: the topics; only their owner changes these.
        version: how many changes there were.
        created_version: the version after the latest creation of a topic.
    """

    __slots__ = ("_changes", "_forgotten", "by_id", "by_name", "created_version", "version")

    def __init__(self, by_name: dict[str, TopicImage], by_id: dict[bytes, TopicImage]) -> None:
        """Show the topics in two tables of their owner."""
        self.by_name = by_name
        self.by_id = by_id
        self.version = 0
        self.created_version = 0
        # The version after the latest change of a topic, by its name, and the version up to which
        # these are forgotten.
        self._changes: dict[str, int] = {}
        self._forgotten = 0

    def note_change(self, name: str, *, is_new: bool = False) -> None:
        """Count a change of a topic that its owner has made."""
        self.version += 1
        assert not is_new or name in self.by_name, f"{name} is created and not shown"
        if is_new:
            self.created_version = self.version
        if len(self._changes) >= _MOST_CHANGES:
            self._changes.clear()
            self._forgotten = self.version
        self._changes[name] = self.version
        assert len(self._changes) <= _MOST_CHANGES, "the number of changes is limited"

    def may_have_changed(self, names: Iterable[str], since: int) -> bool:
        """Return whether one of some topics has changed after a version, as far as is known."""
        assert since <= self.version, "nobody has seen a later version"
        if since < self._forgotten:
            return True
        changes = self._changes
        return any(changes.get(name, 0) > since for name in names)
