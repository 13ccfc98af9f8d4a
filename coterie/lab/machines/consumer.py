"""A consumer: eager or cooperative (KIP-429), dynamic or static (KIP-345).

An eager consumer commits and gives all partitions up before each join. A cooperative one keeps
them, gives up after the sync what the leader has taken from it, and rejoins at once.
"""

from collections.abc import Callable, Iterable
from typing import Any

from coterie.assignors import ASSIGNORS, TopicPartition
from coterie.conversation.subscriptions import (
    by_topic,
    decoded_assignment,
    encoded_assignment,
    encoded_subscription,
    subscription_of,
)
from coterie.lab.kernel import MS
from coterie.lab.machines.classic_host import GROUP, GroupHost
from coterie.lab.machines.group_member import GroupMember, MemberSettings, partitions_text
from coterie.lab.pods import Pod
from coterie.protocol.messages.join_group import JoinGroupResponse
from coterie.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)

COOPERATIVE = "cooperative-sticky"
# From this version on OffsetFetch lists groups [offsets/fetch-many-groups].
_FETCH_GROUPS_SINCE = 8


class Consumer(GroupMember):
    """A consumer in a pod."""

    def __init__(self, host: GroupHost, pod: Pod, settings: MemberSettings) -> None:
        super().__init__(host, pod, settings)
        self._cooperative = settings.protocols[0] == COOPERATIVE
        self._owned: set[TopicPartition] = set()
        self._reading: set[TopicPartition] = set()
        self._commit_timer = False
        # The client's metadata of the topics.
        self._counts = dict(self.environment.workload.counts)

    def reading(self) -> set[TopicPartition]:
        """Return the partitions whose records it hands over."""
        return set(self._reading)

    def topic_grew(self) -> None:
        """Refresh the metadata; the leader starts a rebalance if the topics have changed."""
        self._counts = dict(self.environment.workload.counts)
        if self.phase == "member" and self.leads:
            self.environment.ledger.noticed(None)
            self._rejoin_at_poll()

    # -- the rebalance -----------------------------------------------------------------------------

    def metadata(self, protocol: str) -> bytes:
        """Return the subscription; cooperative consumers add what they own."""
        owned = sorted(self._owned) if protocol == COOPERATIVE else ()
        return encoded_subscription(self._counts, owned, self.generation_id)

    def assign(self, joined: JoinGroupResponse) -> dict[str, bytes]:
        """Assign as the client of the leader does."""
        members = [subscription_of(each) for each in joined.members]
        assert joined.protocol_name, "a completed join has a protocol"
        name = joined.protocol_name
        if self.environment.parameters.fault == "handover-at-once" and name == COOPERATIVE:
            name = "sticky"
        assignment = ASSIGNORS[name](self._counts, members)
        return {
            member_id: encoded_assignment(sorted(partitions))
            for member_id, partitions in assignment.items()
        }

    def prepare(self, then: Callable[[], None]) -> None:
        """Commit; an eager consumer then gives all up."""
        if not self._owned:
            then()
        elif self._cooperative and self.phase != "closing":
            self._commit(self._reading, lambda _: then())
        elif self.environment.parameters.fault == "revoke-after-join":
            then()
        else:
            self._revoke(set(self._owned), then)

    def _revoke(self, partitions: set[TopicPartition], then: Callable[[], None]) -> None:
        """Stop reading partitions: commit what was read, call the application back, continue."""
        callback_us = self.environment.callback_us(len(partitions))
        called_back = self._in_turn(lambda _: self._after(callback_us, then))
        commits = self.phase != "closing" or self.environment.parameters.commits_on_close
        self._commit(partitions & self._reading if commits else (), called_back)
        self._give_up(partitions)

    def adopt(self, assignment: bytes) -> None:
        """Give up what is not assigned any more, and take what is new."""
        assigned = set(decoded_assignment(assignment))
        revoked = self._owned - assigned
        added = assigned - self._owned
        self._detail(
            "SyncGroup answered", f"generation={self.generation_id}",
            f"assigned={partitions_text(assigned)}", f"added={partitions_text(added)}",
            f"revoked={partitions_text(revoked)}",
        )  # fmt: skip
        for partition in sorted(added):
            self.environment.ledger.take(self.pod.identity, partition)
        self._owned = assigned | revoked
        if added:
            self.pod.after(self.environment.callback_us(len(added)), self._fetch, added)
        if revoked and self._cooperative:
            self.environment.ledger.rejoining(self.pod.identity, True)
            self._revoke(revoked, self.rejoin)
        else:
            self._give_up(revoked)
        if not self._commit_timer:
            self._commit_timer = True
            first_ms = self._random.uniform(0.5, 1) * self.settings.commit_ms
            self.pod.after(int(first_ms * MS), self._commit_on_time)

    def owned_text(self) -> str:
        """Return what it owns, for a trace."""
        return partitions_text(self._owned)

    def lose(self) -> None:
        """Give everything up without a commit."""
        self._give_up(set(self._owned))

    def _give_up(self, partitions: set[TopicPartition]) -> None:
        forgets = self.environment.parameters.fault == "forgotten-stop"
        for partition in sorted(partitions):
            self._owned.discard(partition)
            self._reading.discard(partition)
            if not (forgets and partition.partition == 0):
                self.environment.ledger.stop(self.pod.identity, partition)

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
