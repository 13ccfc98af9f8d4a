"""A consumer: eager or cooperative (KIP-429), dynamic or static (KIP-345).

An eager consumer commits and gives all partitions up before each join. A cooperative one keeps
them, gives up after the sync what the leader has taken from it, and rejoins at once.
"""

from collections.abc import Callable

from coterie.assignors.by_name import ASSIGNORS
from coterie.assignors.model import TopicPartition
from coterie.conversation.subscriptions import (
    decoded_assignment,
    encoded_assignment,
    encoded_subscription,
    subscription_of,
)
from coterie.lab.machines.coordinator_host import GroupHost
from coterie.lab.machines.group_member import GroupMember, MemberSettings, partitions_text
from coterie.lab.machines.partition_reader import PartitionReader
from coterie.lab.pods import Pod
from coterie.protocol.messages.join_group import JoinGroupResponse

COOPERATIVE = "cooperative-sticky"


class Consumer(PartitionReader, GroupMember):
    """A consumer in a pod."""

    def __init__(self, host: GroupHost, pod: Pod, settings: MemberSettings) -> None:
        super().__init__(host, pod, settings)
        self._cooperative = settings.protocols[0] == COOPERATIVE
        self._begin_reading()
        # The client's metadata of the topics.
        self._counts = dict(self.environment.workload.counts)

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
        assignment = ASSIGNORS[joined.protocol_name](self._counts, members)
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
        self._take(added)
        if revoked and self._cooperative:
            self.environment.ledger.rejoining(self.pod.identity, True)
            self._revoke(revoked, self.rejoin)
        else:
            self._give_up(revoked)
        self._commit_in_time()
