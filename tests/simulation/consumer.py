"""A simulated consumer: joins, syncs, heartbeats, commits, leaves, crashes and starts again.

It has one request under way, drops a connection whose response was lost, repeats the request on the
next one, and reacts to errors as common clients do. An eager consumer gives up its partitions
before each rebalance. A cooperative one sends the partitions that it owns and keeps those that it
is assigned again. A static one starts again with its instance id.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from coterie.conversation.member import ClassicMember
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.consumer_protocol import (
    ConsumerProtocolSubscription,
    TopicPartition,
    decode_subscription,
    encode_subscription,
)
from coterie.protocol.messages.join_group import JoinGroupResponse
from tests.simulation.call import Call
from tests.simulation.offset_requests import commit_request, fetch_request

if TYPE_CHECKING:
    from tests.simulation.world import World

TOPICS = ("t0", "t1", "t2")
PARTITIONS = 4

EAGER, COOPERATIVE = "range", "cooperative-sticky"
# After these errors a member keeps its id and repeats the JoinGroup.
_RETRIABLE = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.UNKNOWN_SERVER_ERROR,
)


class Consumer(ClassicMember):
    """One process that is or wants to become a member.

    Attributes:
        phase: "down", "joining", "syncing", "member", "refused" (it stops trying) or "fenced".
        phase_number: counts the changes of phase; an action that was scheduled in an earlier phase
            is not carried out.
        former_ids: the last member ids it has given up.
        owned: its assigned partitions, as "topic-number".
        connection: the number of its connection; responses on an earlier one are ignored.
    """

    def __init__(
        self,
        world: "World",
        name: str,
        group_id: str,
        *,
        instance_id: str | None,
        protocol_type: str,
        protocols: tuple[str, ...],
        version: int,
    ) -> None:
        rng, profile = world.rng, world.profile
        super().__init__(
            group_id,
            protocols=protocols,
            session_ms=rng.randint(*profile.session_ms),
            rebalance_ms=rng.randint(*profile.rebalance_ms),
            protocol_type=protocol_type,
            instance_id=instance_id,
        )
        self.world = world
        self.name = name
        self.version = version
        self.topics = self._some_topics()
        self.phase = "down"
        self.owned: frozenset[str] = frozenset()
        self.connection = 0
        self.phase_number = 0
        self.former_ids: list[str] = []

    def __repr__(self) -> str:
        return f"{self.name}({self.group_id}, {self.phase}, {self.member_id}, {self.generation_id})"

    # -- life --------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start as a new process, without member id and assignment."""
        self._drop_member_id()
        self.owned = frozenset()
        self.join()

    def reconnect(self) -> None:
        """Connect again and repeat the last request, or send another one in its place."""
        self.connection += 1
        if self.phase == "joining":
            self.join()
        elif self.phase == "syncing":
            chance = self.world.rng.random()
            if chance < 0.5:
                self.sync()
            elif chance < 0.7 and not self.world.calm:
                self._resubscribe()
            else:
                self.join()
        elif self.phase == "member":
            self._enter("member", 1, self.heartbeat)

    def crash(self) -> None:
        """Die abruptly; most processes are started again some time later."""
        self.connection += 1
        self._enter("down")
        rng = self.world.rng
        if rng.random() < 0.8:
            quick = self.instance_id is not None and rng.random() < 0.8
            self._start_within(self.session_ms // 3 if quick else self.session_ms * 3)

    def _start_within(self, max_ms: int) -> None:
        if not self.world.calm:
            self._schedule(self.world.rng.randint(1, max_ms), self.start)

    def _enter(
        self, phase: str, delay_ms: int = 0, action: Callable[[], None] | None = None
    ) -> None:
        """Change the phase and schedule the next action."""
        self.phase = phase
        self.phase_number += 1
        if action is not None:
            self._schedule(delay_ms, action)

    def _schedule(self, delay_ms: int, action: Callable[[], None]) -> None:
        self.world.after(delay_ms, self._act, self.phase_number, action)

    def _act(self, phase_number: int, action: Callable[[], None]) -> None:
        stays_down = self.world.calm and self.phase in ("down", "fenced")
        if phase_number == self.phase_number and not stays_down:
            action()

    def _drop_member_id(self) -> None:
        if self.member_id:
            self.former_ids.append(self.member_id)
            del self.former_ids[:-3]
        self.member_id = ""
        self.generation_id = -1

    def _some_topics(self) -> tuple[str, ...]:
        rng = self.world.rng
        return tuple(sorted(rng.sample(TOPICS, rng.randint(1, len(TOPICS)))))

    # -- joining -----------------------------------------------------------------------------------

    def metadata(self, protocol: str) -> bytes:
        """Return the subscription for a protocol."""
        owned: list[TopicPartition] = []
        if protocol == COOPERATIVE:
            for topic in self.topics:
                numbers = sorted(int(p[3:]) for p in self.owned if p[:2] == topic)
                if numbers:
                    owned.append(TopicPartition(topic=topic, partitions=numbers))
        subscription = ConsumerProtocolSubscription(
            topics=list(self.topics), owned_partitions=owned, generation_id=self.generation_id
        )
        return encode_subscription(subscription, 1)

    def join(self) -> None:
        """Send a JoinGroup, with the member id if there is one."""
        if COOPERATIVE not in self.protocols:
            self.owned = frozenset()
        self._enter("joining")
        self.world.request(self, self.join_request(self.version), self.version)
        rng, profile = self.world.rng, self.world.profile
        if not self.world.calm and rng.random() < profile.early_retry:
            self._schedule(rng.randint(1, self.rebalance_ms), self.reconnect)
        else:
            slack_ms = profile.initial_delay_ms + profile.append_ms[1] + 5_000
            self._schedule(profile.rebalance_ms[1] + slack_ms, self.reconnect)

    def _on_join(self, response: JoinGroupResponse) -> None:
        error = response.error_code
        world = self.world
        if error == ErrorCode.NONE:
            self.take_join(response)
            self._enter("syncing", world.pause(self), self.sync)
        elif error == ErrorCode.MEMBER_ID_REQUIRED:
            self._drop_member_id()
            self.take_join(response)
            world.pending_ids.append((self, response.member_id))
            chance = 1.0 if world.calm else world.rng.random()
            if chance < world.profile.crash * 2:
                self.crash()  # the pending id expires unused
            elif chance < world.profile.crash * 2 + 0.03:
                self.leave()
            else:
                self._enter("joining", world.pause(self), self.join)
        elif error in (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ErrorCode.GROUP_MAX_SIZE_REACHED):
            if error == ErrorCode.GROUP_MAX_SIZE_REACHED:
                self._drop_member_id()
            self._enter("refused")
            self._start_within(self.session_ms * 2)
        else:
            self._on_error(error)

    def _on_error(self, error: int) -> None:
        """React to an error, whatever the request was."""
        if error == ErrorCode.FENCED_INSTANCE_ID:
            self._drop_member_id()
            self._enter("fenced")
            self._start_within(self.session_ms * 2)
        elif error in _RETRIABLE:
            self._enter("joining", self.world.rng.randint(20, 200), self.join)
        else:
            if error == ErrorCode.UNKNOWN_MEMBER_ID:
                self._drop_member_id()
                self.owned = frozenset()
            self._enter("joining", self.world.pause(self), self.join)

    # -- the assignment ----------------------------------------------------------------------------

    def sync(self) -> None:
        """Send a SyncGroup; a leader computes the assignment."""
        join = self.joined
        assert join is not None
        assignments = list(assign(join).items())
        if not self.world.calm and self.world.rng.random() < 0.05:
            assignments = assignments[1:]  # a member without an assignment gets empty bytes
        version = 5 if self.version >= 7 else 3
        request = self.sync_request(dict(assignments), version)
        self._enter("syncing")
        self.world.request(self, request, version)
        rng, profile = self.world.rng, self.world.profile
        if not self.world.calm and rng.random() < profile.early_retry:
            self._schedule(rng.randint(1, self.rebalance_ms), self.reconnect)
        else:
            slack_ms = profile.append_ms[1] + 5_000
            self._schedule(profile.rebalance_ms[1] + slack_ms, self.reconnect)

    def _on_sync(self, response: Any) -> None:
        if response.error_code != ErrorCode.NONE:
            self._on_error(response.error_code)
            return
        text = response.assignment.decode()
        assigned = frozenset(p for p in text.split(",") if p not in ("", "-"))
        revoked = self.owned - assigned
        self.owned = assigned
        if revoked and COOPERATIVE in self.protocols:
            self._enter("joining", self.world.pause(self), self.join)
        else:
            self._enter("member", self._heartbeat_delay_ms(), self.heartbeat)

    # -- as a member -------------------------------------------------------------------------------

    def _heartbeat_delay_ms(self) -> int:
        rng, profile = self.world.rng, self.world.profile
        if not self.world.calm and rng.random() < profile.pause:
            return rng.randint(1, max(self.session_ms, self.rebalance_ms) * 3 // 2)
        # Often enough to learn of a rebalance before it ends without this member.
        shorter_ms = min(self.session_ms, self.rebalance_ms)
        return rng.randint(shorter_ms // 5, shorter_ms // 3)

    def heartbeat(self) -> None:
        """Send a heartbeat, or now and then do something else."""
        rng, profile = self.world.rng, self.world.profile
        chance = rng.random()
        if not self.world.calm:
            for share, action in (
                # Static membership is for quick restarts, so static members crash more often.
                (profile.crash * (3 if self.instance_id else 1), self.crash),
                (profile.leave, self.leave),
                (profile.resubscribe, self._resubscribe),
                (0.1, self._commit),
                (0.05, self._fetch),
            ):
                if chance < share:
                    action()
                    return
                chance -= share
        self.world.request(self, self.heartbeat_request(4), 4)
        self._enter("member", self.session_ms, self.reconnect)

    def _on_heartbeat(self, response: Any) -> None:
        error = response.error_code
        if error == ErrorCode.NONE:
            self._enter("member", self._heartbeat_delay_ms(), self.heartbeat)
        elif error == ErrorCode.REBALANCE_IN_PROGRESS and self.world.rng.random() < 0.2:
            self._commit()  # the last commit before it gives up its partitions
        elif error == ErrorCode.REBALANCE_IN_PROGRESS:
            self._enter("joining", self._rejoin_delay_ms(), self.join)
        else:
            self._on_error(error)

    def _rejoin_delay_ms(self) -> int:
        rng, profile = self.world.rng, self.world.profile
        if not self.world.calm and rng.random() < profile.pause * 2:
            return rng.randint(1, self.rebalance_ms * 3 // 2)
        return self.world.pause(self)

    def _resubscribe(self) -> None:
        self.topics = self._some_topics()
        self.join()

    def leave(self) -> None:
        """Leave the group and go down; maybe start again later."""
        version = 4 if self.version >= 6 else 2
        self.world.request(self, self.leave_request(version), version)
        self._enter("down")
        self._start_within(self.session_ms * 3)

    def _commit(self) -> None:
        partitions = sorted(self.owned) or ["t0-0"]
        request, version = commit_request(self.world, self.group_id, partitions)
        request.generation_id_or_member_epoch = self.generation_id
        request.member_id = self.member_id
        request.group_instance_id = self.instance_id
        self.world.request(self, request, max(version, 7) if self.instance_id else version)
        self._enter("member", self.session_ms, self.reconnect)

    def _fetch(self) -> None:
        request, version = fetch_request(self.world, [self.group_id])
        self.world.request(self, request, version)
        self._enter("member", self.session_ms, self.reconnect)

    def _on_commit(self, response: Any) -> None:
        codes = {each.error_code for topic in response.topics for each in topic.partitions}
        error = max(codes - {ErrorCode.OFFSET_METADATA_TOO_LARGE}, default=ErrorCode.NONE)
        if error == ErrorCode.NONE:
            self._enter("member", 1, self.heartbeat)
        elif error == ErrorCode.REBALANCE_IN_PROGRESS:
            self._enter("joining", self._rejoin_delay_ms(), self.join)
        else:
            self._on_error(error)

    # -- responses ---------------------------------------------------------------------------------

    def receive(self, call: Call, message: Any) -> None:
        """Handle a response on the current connection."""
        if self.phase == "joining" and call.api == "JoinGroup":
            self._on_join(message)
        elif self.phase == "syncing" and call.api == "SyncGroup":
            self._on_sync(message)
        elif self.phase == "member" and call.api == "Heartbeat":
            self._on_heartbeat(message)
        elif self.phase == "member" and call.api == "OffsetCommit":
            self._on_commit(message)
        elif self.phase == "member" and call.api == "OffsetFetch":
            self._enter("member", 1, self.heartbeat)


def assign(join: JoinGroupResponse) -> dict[str, bytes]:
    """Return the assignment of each member; empty for a follower and with skip_assignment.

    Each partition of a topic goes to the subscribers of the topic in turn. With a cooperative
    protocol, a partition that another member still owns is assigned to no member until its owner
    has given it up.
    """
    if not join.members or join.skip_assignment:
        return {}
    subscriptions = {each.member_id: decode_subscription(each.metadata) for each in join.members}
    cooperative = join.protocol_name == COOPERATIVE
    owners: dict[str, str] = {}
    for member_id, subscription in subscriptions.items():
        for owned in subscription.owned_partitions:
            for number in owned.partitions:
                owners.setdefault(f"{owned.topic}-{number}", member_id)
    assigned: dict[str, list[str]] = {member_id: [] for member_id in subscriptions}
    for topic in TOPICS:
        readers = [m for m, subscription in subscriptions.items() if topic in subscription.topics]
        for number in range(PARTITIONS if readers else 0):
            partition = f"{topic}-{number}"
            reader = readers[number % len(readers)]
            if not cooperative or owners.get(partition, reader) == reader:
                assigned[reader].append(partition)
    return {
        member_id: (",".join(partitions) or "-").encode()
        for member_id, partitions in assigned.items()
    }
