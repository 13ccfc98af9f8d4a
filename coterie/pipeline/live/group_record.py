"""Everything that is recorded of one group on a broker: facts of its journal, records of its log.

A broker of ours has both, another Kafka the log only. Invariant: memory is bounded by `MAX_FACTS`
and by the bounds of the group log.
"""

from collections import deque

from coterie.client.cluster import Cluster
from coterie.client.history import Journal, NoJournal, journal_of, read_history, read_on
from coterie.client.topics import describe_topics
from coterie.pipeline.live.group_log import GroupLog
from coterie.pipeline.timeline.combined import group_history
from coterie.pipeline.timeline.departures import OPEN
from coterie.pipeline.timeline.from_rows import generations_of
from coterie.pipeline.timeline.model import GroupHistory
from coterie.pipeline.timeline.with_departures import with_departures
from coterie.protocol.messages.journal_records import Fact
from coterie.protocol.messages.partition_facts import PartitionLoaded, PartitionUnloaded

# A page draws a thousand rebalances, which have some ten facts each.
MAX_FACTS = 10_000


class GroupRecord:
    """What is recorded of a group; it belongs to one thread at a time.

    Attributes:
        group_id: the group.
        facts: the facts of its journal; None without a journal.
        log: its records in the group log.
    """

    def __init__(self, group_id: str) -> None:
        """Know nothing yet."""
        self.group_id = group_id
        self.facts: deque[Fact] | None = None
        self.log = GroupLog(group_id)
        self._journal: Journal | None = None
        self._next_offset = 0
        self._names: dict[str, str] = {}

    @property
    def sources(self) -> list[str]:
        """What it was read from, in words."""
        return [*(["journal"] if self.facts is not None else []), "group log"]

    def read(self, cluster: Cluster, max_wait_ms: int = 0) -> bool:
        """Read what was recorded since the last call; return whether the history has changed.

        Args:
            cluster: the cluster.
            max_wait_ms: how long to wait for a new fact if there is none.
        """
        count = 0 if self.facts is None else len(self.facts)
        has_journal = self._find_journal(cluster)
        if self._journal is not None and not has_journal:
            found = read_on(cluster, self._journal, self._next_offset, max_wait_ms)
            if found.next_offset < self._next_offset:
                # It is another journal: the broker has lost its data.
                self.forget()
                return True
            self._next_offset = found.next_offset
            assert self.facts is not None, "a journal was found"
            self.facts += found.facts
            count = len(self.facts) - len(found.facts)
        has_news = self.log.read(cluster)
        return has_news or (self.facts is not None and len(self.facts) != count)

    def forget(self) -> None:
        """Forget what was recorded; it is read again from the beginning."""
        self.facts, self._journal, self._next_offset = None, None, 0
        self.log = GroupLog(self.group_id)
        self._names = {}

    def history(self, cluster: Cluster) -> GroupHistory:
        """Work out the history from what was read.

        Args:
            cluster: the cluster, for the names of topics of which the log has ids.
        """
        # The timeline is made of facts about the group itself.
        own = [
            each
            for each in self.facts or ()
            if not isinstance(each, PartitionLoaded | PartitionUnloaded)
        ]
        names = self._topic_names(cluster)
        logged = generations_of(self.log.generations)
        history = group_history(self.group_id, own, logged, self.log.epochs, names)
        if any(session.exit_kind == OPEN for session in history.sessions):
            history = with_departures(history, self.log.commits)
        return history

    def _find_journal(self, cluster: Cluster) -> bool:
        """Find the journal and read it; return whether that was done now."""
        if self._journal is not None:
            return False
        try:
            journal = journal_of(cluster, self.group_id)
        except NoJournal:
            return False
        found = read_history(cluster, journal)
        self.facts = deque(found.facts, MAX_FACTS)
        self._journal, self._next_offset = journal, found.next_offset
        return True

    def _topic_names(self, cluster: Cluster) -> dict[str, str]:
        """Return names by topic id, if the records of the group have ids."""
        if self.log.epochs:
            found = {each.topic_id: each.name for each in describe_topics(cluster)}
            self._names |= {key: name for key, name in found.items() if key is not None}
        return self._names
