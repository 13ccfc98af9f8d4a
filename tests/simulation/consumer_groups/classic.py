"""A member of the classic protocol, eager or cooperative, alone or among members of the other one.

It leads classic groups as well as it can: a partition goes to the member that owns it, and a
cooperative leader gives no partition to a member while another one owns it.
"""

from typing import Any

from coterie.conversation.member import ClassicMember
from coterie.coordinator.topic_image import TopicImage
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from coterie.protocol.messages.heartbeat import HeartbeatResponse
from coterie.protocol.messages.join_group import JoinGroupResponse
from coterie.protocol.messages.sync_group import SyncGroupResponse
from tests.simulation.checks.violation import Violation, require
from tests.simulation.consumer_groups.processes import RETRIABLE, Partition, Process

EAGER, COOPERATIVE = "range", "cooperative-sticky"
_VERSION = 9
# A delayed answer is waited for that long.
_PATIENCE_MS = 15_000


class ClassicClient(ClassicMember):
    """A client; see `Client`."""

    uses_classic = True

    def __init__(self, process: Process) -> None:
        world = process.world
        super().__init__(
            process.group_id,
            protocols=(COOPERATIVE if world.is_cooperative(process.group_id) else EAGER,),
            session_ms=world.rng.randint(2_000, 5_000),
            rebalance_ms=world.rng.randint(3_000, 6_000),
            instance_id=process.instance_id,
        )
        self._process = process
        self._world = world
        self._topics = process.usual_topics or world.some_topics()
        self.owned: frozenset[Partition] = frozenset()
        self.owns_as_told = False
        self._phase = "joining"
        self._requests = 0
        self._latest: Any = None
        self._joins_again = False
        self._by_name: dict[str, TopicImage] = {}

    def __repr__(self) -> str:
        return f"ClassicClient({self.member_id!r}, {self.generation_id}, {self._phase})"

    @property
    def is_settled(self) -> bool:
        """See `Client`."""
        return self._phase == "member"

    def wants(self, topic: str) -> bool:
        """See `Client`."""
        return topic in self._topics

    def metadata(self, protocol: str) -> bytes:
        """See `ClassicMember`."""
        named: dict[str, list[int]] = {}
        for topic_id, index in sorted(self.owned):
            topic = self._world.harness.topics.image.by_id.get(topic_id)
            if topic is not None and protocol == COOPERATIVE:
                named.setdefault(topic.name, []).append(index)
        owned = [TopicPartition(topic=name, partitions=each) for name, each in named.items()]
        subscription = ConsumerProtocolSubscription(topics=self._topics, owned_partitions=owned)
        return encode_subscription(subscription, 1)

    # -- life --------------------------------------------------------------------------------------

    def start(self) -> None:
        """See `Client`."""
        self._join()

    def reconnect(self) -> None:
        """See `Client`."""
        if self._phase == "member":
            self._beat()
        elif self._phase == "syncing" and self._world.rng.random() < 0.5:
            self._sync()
        else:
            self._join()

    def resubscribe(self) -> None:
        """See `Client`."""
        self._topics = self._world.some_topics()
        if self.instance_id is not None:
            # A static successor with other topics causes no rebalance of a classic group.
            self._process.usual_topics = self._topics
        self.refresh()

    def refresh(self) -> None:
        """See `Client`; the leader of a classic group assigns anew when it joins."""
        if self._phase == "member":
            self._join()
        else:
            self._joins_again = True

    def leave(self) -> None:
        """See `Client`."""
        if self.member_id:
            self.owned = frozenset()
            self._process.request(self.leave_request(4), 4)

    def _send(self, phase: str, request: Any, version: int) -> None:
        self._phase = phase
        self._requests += 1
        self._latest = request
        self._process.request(request, version)
        self._process.after(_PATIENCE_MS, self._lose_patience, self._requests)

    def _lose_patience(self, requests: int) -> None:
        if requests == self._requests and self._phase != "member":
            self._process.drop_connection()

    def _join(self) -> None:
        if COOPERATIVE not in self.protocols:
            self.owned = frozenset()
        self._joins_again = False
        self._send("joining", self.join_request(_VERSION), _VERSION)

    def _sync(self) -> None:
        assert self.joined is not None
        # The answer names topics as they are now; one may be another when it arrives.
        self._by_name = dict(self._world.harness.topics.image.by_name)
        self._send("syncing", self.sync_request(self._assign(self.joined), 5), 5)

    def _beat(self) -> None:
        if self._phase == "member":
            self._send("member", self.heartbeat_request(4), 4)

    # -- answers -----------------------------------------------------------------------------------

    def receive(self, request: Any, message: Any) -> None:
        """See `Client`; only the answer to the latest request counts."""
        if request is not self._latest:
            return
        self._requests += 1
        if isinstance(message, JoinGroupResponse):
            error = ErrorCode(message.error_code)
            self.take_join(message)
            if error == ErrorCode.MEMBER_ID_REQUIRED:
                self._join()
            elif error:
                self._refused(error)
            else:
                self._process.after(self._world.pause_ms(), self._sync)
        elif isinstance(message, SyncGroupResponse):
            if message.error_code:
                self._refused(ErrorCode(message.error_code))
            else:
                self._take(message.assignment)
        elif isinstance(message, HeartbeatResponse):
            error = ErrorCode(message.error_code)
            if error == ErrorCode.REBALANCE_IN_PROGRESS:
                self._process.after(self._world.pause_ms(), self._join)
            elif error:
                self._refused(error)
            else:
                self._process.after(self._world.heartbeat_delay_ms(), self._beat)
        else:
            raise Violation("answers", f"{message} to {self}")

    def _refused(self, error: ErrorCode) -> None:
        rng = self._world.rng
        if error in RETRIABLE or error == ErrorCode.REBALANCE_IN_PROGRESS:
            self._process.after(rng.randint(20, 200), self._join)
        elif error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            if error == ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id = ""
            self.owned = frozenset()
            self._process.after(rng.randint(1, 100), self._join)
        else:
            fatal = (
                ErrorCode.FENCED_INSTANCE_ID,
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                ErrorCode.GROUP_MAX_SIZE_REACHED,
            )
            require(error in fatal, "answers", f"{error!r} to {self}")
            self._process.stop(2_000)

    def _take(self, assignment: bytes) -> None:
        """Own what was assigned; a cooperative member that has given something up joins again."""
        by_name = self._by_name
        found = decode_assignment(assignment).assigned_partitions if assignment else []
        wanted = frozenset(
            (by_name[each.topic].topic_id, index)
            for each in found
            if each.topic in by_name
            for index in each.partitions
        )
        gives_up = bool(self.owned - wanted)
        # A consumer group has no leader.
        self.owns_as_told = self.joined is not None and not self.joined.leader
        self.owned = wanted
        if self._joins_again or (gives_up and COOPERATIVE in self.protocols):
            self._process.after(self._world.pause_ms(), self._join)
            return
        self._phase = "member"
        self._process.after(self._world.heartbeat_delay_ms(), self._beat)

    def _assign(self, join: JoinGroupResponse) -> dict[str, bytes]:
        """Return the assignment of each member of a classic group, from its leader."""
        if not join.members or join.skip_assignment:
            return {}
        by_name = self._world.harness.topics.image.by_name
        subscriptions = {
            each.member_id: decode_subscription(each.metadata) for each in join.members
        }
        owners = {
            (owned.topic, index): member_id
            for member_id, subscription in subscriptions.items()
            for owned in subscription.owned_partitions
            for index in owned.partitions
        }
        assigned: dict[str, dict[str, list[int]]] = {each: {} for each in subscriptions}
        for name in sorted(by_name):
            readers = [each for each, said in subscriptions.items() if name in said.topics]
            for index in range(by_name[name].partitions if readers else 0):
                reader = readers[index % len(readers)]
                if owners.get((name, index), reader) == reader:
                    assigned[reader].setdefault(name, []).append(index)
        return {
            member_id: encode_assignment(
                ConsumerProtocolAssignment(
                    assigned_partitions=[
                        TopicPartition(topic=name, partitions=each) for name, each in topics.items()
                    ]
                ),
                1,
            )
            for member_id, topics in assigned.items()
        }
