"""What a consumer does with its partitions: fetch their offsets, read them, commit, give them up.

It is the same for classic consumers and for those of the consumer protocol.
"""

from collections.abc import Callable, Iterable
from typing import Any

from coterie.assignors.model import TopicPartition
from coterie.conversation.member import Member
from coterie.conversation.subscriptions import by_topic
from coterie.lab.environment import Environment
from coterie.lab.kernel import MS
from coterie.lab.machines.coordinator_host import GROUP, GroupHost
from coterie.lab.machines.group_member import MemberSettings, partitions_text
from coterie.lab.pods import Pod
from coterie.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)

# From this version on OffsetFetch lists groups [offsets/fetch].
_FETCH_GROUPS_SINCE = 8


class PartitionReader(Member):
    """A member that reads partitions; another base class speaks the protocol of its group.

    Attributes:
        pod, host, settings, environment: of the member.
        phase: "member" while it may commit.
    """

    pod: Pod
    host: GroupHost
    settings: MemberSettings
    environment: Environment
    phase: str
    _random: Any

    def _begin_reading(self) -> None:
        self._owned: set[TopicPartition] = set()
        self._reading: set[TopicPartition] = set()
        self._commit_timer = False

    def reading(self) -> set[TopicPartition]:
        """Return the partitions whose records it hands over."""
        return set(self._reading)

    def owned_text(self) -> str:
        """Return what it owns, for a trace."""
        return partitions_text(self._owned)

    def lose(self) -> None:
        """Give everything up without a commit."""
        self._give_up(set(self._owned))

    def _give_up(self, partitions: set[TopicPartition]) -> None:
        for partition in sorted(partitions):
            self._owned.discard(partition)
            self._reading.discard(partition)
            self.environment.ledger.stop(self.pod.identity, partition)

    def _take(self, added: Iterable[TopicPartition]) -> None:
        """Own new partitions; read them after the callback of the application."""
        partitions = sorted(added)
        for partition in partitions:
            self.environment.ledger.take(self.pod.identity, partition)
        self._owned.update(partitions)
        if partitions:
            callback_us = self.environment.callback_us(len(partitions))
            self.pod.after(callback_us, self._fetch, set(partitions))

    def _commit_in_time(self) -> None:
        """Begin to commit from time to time, unless that has begun."""
        if not self._commit_timer:
            self._commit_timer = True
            first_ms = self._random.uniform(0.5, 1) * self.settings.commit_ms
            self.pod.after(int(first_ms * MS), self._commit_on_time)

    # -- offsets -----------------------------------------------------------------------------------

    def _fetch(self, partitions: set[TopicPartition]) -> None:
        """Fetch the offsets of new partitions."""
        topics = [
            OffsetFetchRequestTopic(name=each.topic, partition_indexes=each.partitions)
            for each in by_topic(sorted(partitions & self._owned))
        ]
        if not topics:
            return
        version = self.settings.versions.fetch
        if version >= _FETCH_GROUPS_SINCE:
            group = OffsetFetchRequestGroup(group_id=GROUP, topics=topics)
            request = OffsetFetchRequest(groups=[group])
        else:
            request = OffsetFetchRequest(group_id=GROUP, topics=topics)
        self.host.submit(self.pod, request, version, lambda got: self._on_offsets(got, partitions))

    def _on_offsets(self, response: Any, partitions: set[TopicPartition]) -> None:
        answer = response.groups[0] if response.groups else response
        if answer.error_code:
            self.pod.after(100 * MS, self._fetch, partitions)
            return
        for topic in answer.topics:
            for each in topic.partitions:
                partition = TopicPartition(topic.name, each.partition_index)
                if partition in self._owned and partition not in self._reading:
                    self._reading.add(partition)
                    self.environment.ledger.start(
                        self.pod.identity, partition, max(0, each.committed_offset)
                    )

    def _commit_on_time(self) -> None:
        self.pod.after(self.settings.commit_ms * MS, self._commit_on_time)
        if self.phase == "member" and self._reading:
            self._commit(self._reading, lambda _: None)

    def _commit(self, partitions: Iterable[TopicPartition], then: Callable[[Any], None]) -> None:
        """Commit the positions of partitions."""
        ledger, identity = self.environment.ledger, self.pod.identity
        offsets: dict[TopicPartition, int] = {}
        for partition in sorted(partitions):
            offset = ledger.position(identity, partition)
            if offset is not None:
                offsets[partition] = offset
        if not offsets:
            then(None)
            return
        version = self.settings.versions.commit
        request = self.commit_request(offsets, version)

        def committed(response: Any) -> None:
            for topic in response.topics:
                for each in topic.partitions:
                    if not each.error_code:
                        partition = TopicPartition(topic.name, each.partition_index)
                        ledger.committed(partition, offsets[partition])
            then(response)

        self.host.submit(self.pod, request, version, committed)
