"""A member of a group, well behaved but mortal: joins, syncs, heartbeats, commits, leaves, crashes,
comes back.

It keeps one request on its way, gives up a connection whose answer was lost and asks again on the
next one, and follows the errors as the usual clients do. The eager ones give everything up before
each rebalance; cooperative ones say what they own and keep what they may; static ones come back
under their instance id.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.consumer_protocol import (
    ConsumerProtocolSubscription,
    TopicPartition,
    decode_subscription,
    encode_subscription,
)
from coterie.protocol.messages.heartbeat import HeartbeatRequest
from coterie.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from coterie.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupRequestMember
from coterie.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.simulation.call import Call
from tests.simulation.offsets import commit_request, fetch_request

if TYPE_CHECKING:
    from tests.simulation.world import World

TOPICS = ("t0", "t1", "t2")
PARTITIONS = 4

EAGER, COOPERATIVE = "range", "cooperative-sticky"
# Errors after which a member keeps its id, tries again, and nothing else changes.
_TRY_AGAIN = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.UNKNOWN_SERVER_ERROR,
)


class Consumer:
    """One process that wants to be a member.

    Attributes:
        phase: "down", "joining", "syncing", "member", "refused" (no use trying) or "fenced".
        member_id, generation_id: what it was told.
        owned: partitions it may read, as "topic-number".
        connection: counts up; answers on an earlier one are not read.
        turn: counts up with the phases; what was planned in an earlier one does not happen.
    """

    def __init__(
        self,
        world: "World",
        name: str,
        group_id: str,
        *,
        instance: str | None,
        protocol_type: str,
        protocols: tuple[str, ...],
        version: int,
    ) -> None:
        rng, profile = world.rng, world.profile
        self.world = world
        self.name = name
        self.group_id = group_id
        self.instance = instance
        self.protocol_type = protocol_type
        self.protocols = protocols
        self.version = version
        self.session_ms = rng.randint(*profile.session_ms)
        self.rebalance_ms = rng.randint(*profile.rebalance_ms)
        self.topics = self._some_topics()
        self.phase = "down"
        self.member_id = ""
        self.generation_id = -1
        self.owned: frozenset[str] = frozenset()
        self.connection = 0
        self.turn = 0
        self.former_ids: list[str] = []
        self._roster: JoinGroupResponse | None = None

    def __repr__(self) -> str:
        return f"{self.name}({self.group_id}, {self.phase}, {self.member_id}, {self.generation_id})"

    # -- its own doings ----------------------------------------------------------------------------

    def start(self) -> None:
        """Come up as a new process that knows nothing."""
        self._forget()
        self.owned = frozenset()
        self.join()

    def reconnect(self) -> None:
        """The connection is gone: ask again what is still of interest."""
        self.connection += 1
        if self.phase == "joining":
            self.join()
        elif self.phase == "syncing":
            chance = self.world.rng.random()
            if chance < 0.5:
                self.sync()
            elif chance < 0.7 and not self.world.quiet:
                self._resubscribe()
            else:
                self.join()
        elif self.phase == "member":
            self._to("member", 1, self.heartbeat)

    def crash(self) -> None:
        """Die without a word; perhaps somebody starts it again."""
        self.connection += 1
        self._to("down")
        rng = self.world.rng
        if rng.random() < 0.8:
            quick = self.instance is not None and rng.random() < 0.8
            self._back_in(self.session_ms // 3 if quick else self.session_ms * 3)

    def _back_in(self, most_ms: int) -> None:
        if not self.world.quiet:
            self._later(self.world.rng.randint(1, most_ms), self.start)

    def _to(self, phase: str, delay_ms: int = 0, then: Callable[[], None] | None = None) -> None:
        self.phase = phase
        self.turn += 1
        if then is not None:
            self._later(delay_ms, then)

    def _later(self, delay_ms: int, then: Callable[[], None]) -> None:
        self.world.after(delay_ms, self._due, self.turn, then)

    def _due(self, turn: int, then: Callable[[], None]) -> None:
        if turn == self.turn and not (self.world.quiet and self.phase in ("down", "fenced")):
            then()

    def _forget(self) -> None:
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
        """The subscription for a protocol."""
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
        """Send a JoinGroup, with whatever id there is."""
        if COOPERATIVE not in self.protocols:
            self.owned = frozenset()
        request = JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=self.session_ms,
            rebalance_timeout_ms=self.rebalance_ms if self.version else -1,
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type=self.protocol_type,
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=self.metadata(name))
                for name in self.protocols
            ],
        )
        self._to("joining")
        self.world.request(self, request, self.version)
        rng, profile = self.world.rng, self.world.profile
        if not self.world.quiet and rng.random() < profile.impatience:
            self._later(rng.randint(1, self.rebalance_ms), self.reconnect)
        else:
            slack_ms = profile.initial_delay_ms + profile.append_ms[1] + 5_000
            self._later(profile.rebalance_ms[1] + slack_ms, self.reconnect)

    def _joined(self, answer: JoinGroupResponse) -> None:
        error = answer.error_code
        world = self.world
        if error == ErrorCode.NONE:
            self.member_id = answer.member_id
            self.generation_id = answer.generation_id
            self._roster = answer
            self._to("syncing", world.pause(self), self.sync)
        elif error == ErrorCode.MEMBER_ID_REQUIRED:
            self._forget()
            self.member_id = answer.member_id
            world.handed_out.append((self, answer.member_id))
            chance = 1.0 if world.quiet else world.rng.random()
            if chance < world.profile.crash * 2:
                self.crash()  # its id stays unused until it times out
            elif chance < world.profile.crash * 2 + 0.03:
                self.leave()
            else:
                self._to("joining", world.pause(self), self.join)
        elif error in (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ErrorCode.GROUP_MAX_SIZE_REACHED):
            if error == ErrorCode.GROUP_MAX_SIZE_REACHED:
                self._forget()
            self._to("refused")
            self._back_in(self.session_ms * 2)
        else:
            self._follow(error)

    def _follow(self, error: int) -> None:
        """What an error means, whichever request it answers."""
        if error == ErrorCode.FENCED_INSTANCE_ID:
            self._forget()
            self._to("fenced")
            self._back_in(self.session_ms * 2)
        elif error in _TRY_AGAIN:
            self._to("joining", self.world.rng.randint(20, 200), self.join)
        else:
            if error == ErrorCode.UNKNOWN_MEMBER_ID:
                self._forget()
                self.owned = frozenset()
            self._to("joining", self.world.pause(self), self.join)

    # -- the assignment ----------------------------------------------------------------------------

    def sync(self) -> None:
        """Fetch the assignment; as leader make it."""
        roster = self._roster
        assert roster is not None
        given = [
            SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)
            for member_id, assignment in assign(roster).items()
        ]
        if not self.world.quiet and self.world.rng.random() < 0.05:
            given = given[1:]  # who is left out gets nothing
        named = self.version >= 7
        request = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type=self.protocol_type if named else None,
            protocol_name=roster.protocol_name if named else None,
            assignments=given,
        )
        self._to("syncing")
        self.world.request(self, request, 5 if named else 3)
        rng, profile = self.world.rng, self.world.profile
        if not self.world.quiet and rng.random() < profile.impatience:
            self._later(rng.randint(1, self.rebalance_ms), self.reconnect)
        else:
            slack_ms = profile.append_ms[1] + 5_000
            self._later(profile.rebalance_ms[1] + slack_ms, self.reconnect)

    def _synced(self, answer: Any) -> None:
        if answer.error_code != ErrorCode.NONE:
            self._follow(answer.error_code)
            return
        text = answer.assignment.decode()
        now_owned = frozenset(p for p in text.split(",") if p not in ("", "-"))
        gave_up = self.owned - now_owned
        self.owned = now_owned
        if gave_up and COOPERATIVE in self.protocols:
            self._to("joining", self.world.pause(self), self.join)
        else:
            self._to("member", self._beat_ms(), self.heartbeat)

    # -- as a member -------------------------------------------------------------------------------

    def _beat_ms(self) -> int:
        rng, profile = self.world.rng, self.world.profile
        if not self.world.quiet and rng.random() < profile.laze:
            return rng.randint(1, max(self.session_ms, self.rebalance_ms) * 3 // 2)
        # Often enough to hear of a rebalance before it ends without this member.
        shorter_ms = min(self.session_ms, self.rebalance_ms)
        return rng.randint(shorter_ms // 5, shorter_ms // 3)

    def heartbeat(self) -> None:
        """Live on, or do something else for once."""
        rng, profile = self.world.rng, self.world.profile
        chance = rng.random()
        if not self.world.quiet:
            for share, act in (
                # Static members are for quick restarts, so they have more of them.
                (profile.crash * (3 if self.instance else 1), self.crash),
                (profile.leave, self.leave),
                (profile.resubscribe, self._resubscribe),
                (0.1, self._commit),
                (0.05, self._fetch),
            ):
                if chance < share:
                    act()
                    return
                chance -= share
        request = HeartbeatRequest(
            group_id=self.group_id,
            generation_id=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self.instance,
        )
        self.world.request(self, request, 4)
        self._to("member", self.session_ms, self.reconnect)

    def _beat(self, answer: Any) -> None:
        error = answer.error_code
        if error == ErrorCode.NONE:
            self._to("member", self._beat_ms(), self.heartbeat)
        elif error == ErrorCode.REBALANCE_IN_PROGRESS and self.world.rng.random() < 0.2:
            self._commit()  # the last word before giving its partitions up
        elif error == ErrorCode.REBALANCE_IN_PROGRESS:
            self._to("joining", self._slowly_ms(), self.join)
        else:
            self._follow(error)

    def _slowly_ms(self) -> int:
        rng, profile = self.world.rng, self.world.profile
        if not self.world.quiet and rng.random() < profile.laze * 2:
            return rng.randint(1, self.rebalance_ms * 3 // 2)
        return self.world.pause(self)

    def _resubscribe(self) -> None:
        self.topics = self._some_topics()
        self.join()

    def leave(self) -> None:
        """Go, and say so."""
        if self.version >= 6:
            member = LeaveGroupRequestMember(
                member_id=self.member_id, group_instance_id=self.instance
            )
            request = LeaveGroupRequest(group_id=self.group_id, members=[member])
        else:
            request = LeaveGroupRequest(group_id=self.group_id, member_id=self.member_id)
        self.world.request(self, request, 4 if self.version >= 6 else 2)
        self._to("down")
        self._back_in(self.session_ms * 3)

    def _commit(self) -> None:
        places = sorted(self.owned) or ["t0-0"]
        request, version = commit_request(self.world, self.group_id, places)
        request.generation_id_or_member_epoch = self.generation_id
        request.member_id = self.member_id
        request.group_instance_id = self.instance
        self.world.request(self, request, max(version, 7) if self.instance else version)
        self._to("member", self.session_ms, self.reconnect)

    def _fetch(self) -> None:
        request, version = fetch_request(self.world, [self.group_id])
        self.world.request(self, request, version)
        self._to("member", self.session_ms, self.reconnect)

    def _committed(self, answer: Any) -> None:
        codes = {each.error_code for topic in answer.topics for each in topic.partitions}
        error = max(codes - {ErrorCode.OFFSET_METADATA_TOO_LARGE}, default=ErrorCode.NONE)
        if error == ErrorCode.NONE:
            self._to("member", 1, self.heartbeat)
        elif error == ErrorCode.REBALANCE_IN_PROGRESS:
            self._to("joining", self._slowly_ms(), self.join)
        else:
            self._follow(error)

    # -- answers -----------------------------------------------------------------------------------

    def answered(self, call: Call, message: Any) -> None:
        """An answer arrives on the present connection."""
        if self.phase == "joining" and call.api == "JoinGroup":
            self._joined(message)
        elif self.phase == "syncing" and call.api == "SyncGroup":
            self._synced(message)
        elif self.phase == "member" and call.api == "Heartbeat":
            self._beat(message)
        elif self.phase == "member" and call.api == "OffsetCommit":
            self._committed(message)
        elif self.phase == "member" and call.api == "OffsetFetch":
            self._to("member", 1, self.heartbeat)


def assign(roster: JoinGroupResponse) -> dict[str, bytes]:
    """What a leader gives each member; nothing for who does not lead, or shall keep what there is.

    Range-like: each partition of a topic goes to its subscribers in turn. A cooperative leader
    leaves a partition that another member still owns to nobody, until that one has given it up.
    """
    if not roster.members or roster.skip_assignment:
        return {}
    subscriptions = {each.member_id: decode_subscription(each.metadata) for each in roster.members}
    cooperative = roster.protocol_name == COOPERATIVE
    owners: dict[str, str] = {}
    for member_id, subscription in subscriptions.items():
        for owned in subscription.owned_partitions:
            for number in owned.partitions:
                owners.setdefault(f"{owned.topic}-{number}", member_id)
    given: dict[str, list[str]] = {member_id: [] for member_id in subscriptions}
    for topic in TOPICS:
        readers = [m for m, subscription in subscriptions.items() if topic in subscription.topics]
        for number in range(PARTITIONS if readers else 0):
            partition = f"{topic}-{number}"
            reader = readers[number % len(readers)]
            if not cooperative or owners.get(partition, reader) == reader:
                given[reader].append(partition)
    return {member_id: (",".join(mine) or "-").encode() for member_id, mine in given.items()}
