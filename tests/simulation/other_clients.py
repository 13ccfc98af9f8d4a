"""Clients that are not members: committers, administrators, and rogue clients.

A rogue client uses the current and former ids of members with wrong generations, instances and
protocols, or starts a second process with the instance id of a member. None of these clients reads
its responses.
"""

from typing import TYPE_CHECKING, Any

from coterie.protocol.messages.delete_groups import DeleteGroupsRequest
from coterie.protocol.messages.describe_groups import DescribeGroupsRequest
from coterie.protocol.messages.heartbeat import HeartbeatRequest
from coterie.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from coterie.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupRequestMember
from coterie.protocol.messages.list_groups import ListGroupsRequest
from coterie.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from coterie.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.simulation.consumer import EAGER, TOPICS, Consumer
from tests.simulation.offset_requests import commit_request, fetch_request

if TYPE_CHECKING:
    from tests.simulation.call import Call
    from tests.simulation.world import World

_ALL_PARTITIONS = [f"{topic}-{number}" for topic in TOPICS for number in range(4)]


class OtherClient:
    """A client that sends a request at random times, `mean_ms` apart on average."""

    def __init__(self, world: "World", name: str, mean_ms: int) -> None:
        self.world = world
        self.name = name
        self.mean_ms = mean_ms
        self.connection = 0
        self.schedule()

    def schedule(self) -> None:
        """Schedule the next request."""
        self.world.after(self.world.rng.randint(1, self.mean_ms * 2), self._due)

    def _due(self) -> None:
        if not self.world.calm:
            self.act()
            self.schedule()

    def act(self) -> None:
        """Send one request."""
        raise NotImplementedError

    def receive(self, call: "Call", message: Any) -> None:
        """Ignore a response."""

    def reconnect(self) -> None:
        """Connect again; nothing is repeated."""
        self.connection += 1

    def group_id(self) -> str:
        """Return a group id: usually of a group with members, else without, unknown or empty."""
        rng = self.world.rng
        others = ["simple", "simple2", "nobody", ""]
        return rng.choice([*self.world.group_ids] * 3 + others)


class Committer(OtherClient):
    """Commits and fetches offsets without being a member."""

    def act(self) -> None:
        """Commit to one group or fetch from several."""
        world, rng = self.world, self.world.rng
        if rng.random() < 0.6:
            group_id = rng.choice(("simple", "simple2", "", *world.group_ids))
            world.request(self, *commit_request(world, group_id, _ALL_PARTITIONS))
        else:
            group_ids = sorted({self.group_id() for _ in range(rng.randint(1, 3))})
            world.request(self, *fetch_request(world, group_ids))


class Admin(OtherClient):
    """Lists, describes and deletes groups; deletes offsets and topics; removes instances."""

    def act(self) -> None:
        """Do one of these."""
        rng = self.world.rng
        rng.choice(
            (
                self._list,
                self._describe,
                self._delete_groups,
                self._delete_offsets,
                self._remove_instances,
                self._delete_topic,
            )
        )()

    def _list(self) -> None:
        rng = self.world.rng
        states = rng.choice(([], ["stable"], ["Empty", " PreparingRebalance"]))
        request = ListGroupsRequest(states_filter=states)
        self.world.request(self, request, 4 if states else rng.choice((0, 3, 4)))

    def _some_groups(self) -> list[str]:
        return [self.group_id() for _ in range(self.world.rng.randint(0, 4))]

    def _describe(self) -> None:
        request = DescribeGroupsRequest(groups=self._some_groups())
        self.world.request(self, request, self.world.rng.choice((0, 5, 6)))

    def _delete_groups(self) -> None:
        self.world.request(self, DeleteGroupsRequest(groups_names=self._some_groups()), 2)

    def _delete_offsets(self) -> None:
        rng = self.world.rng
        topics = [
            OffsetDeleteRequestTopic(
                name=topic,
                partitions=[OffsetDeleteRequestPartition(partition_index=p) for p in (0, 1, 7)],
            )
            for topic in rng.sample(TOPICS, rng.randint(1, 3))
        ]
        self.world.request(self, OffsetDeleteRequest(group_id=self.group_id(), topics=topics), 0)

    def _remove_instances(self) -> None:
        members = [
            LeaveGroupRequestMember(member_id="", group_instance_id=f"i{number}")
            for number in self.world.rng.sample(range(4), 2)
        ]
        group_id = self.world.rng.choice(self.world.group_ids)
        self.world.request(self, LeaveGroupRequest(group_id=group_id, members=members), 3)

    def _delete_topic(self) -> None:
        if self.world.rng.random() < 0.2:
            self.world.delete_topic(self.world.rng.choice(TOPICS))


class Rogue(OtherClient):
    """Sends invalid requests."""

    def act(self) -> None:
        """Send a request with the ids of a random consumer, some of them changed."""
        world, rng = self.world, self.world.rng
        victim = rng.choice(world.consumers)
        actions = (
            self._heartbeat,
            self._sync,
            self._commit,
            self._leave,
            self._join,
            self._invalid_join,
            self._second_process,
            self._use_pending_id,
        )
        rng.choice(actions)(victim)

    def _ids(self, victim: Consumer) -> tuple[str, int, str | None]:
        """Return member id, generation and instance id, each right or wrong."""
        rng = self.world.rng
        member_id = victim.member_id
        if rng.random() < 0.3:
            member_id = rng.choice([*victim.former_ids, "made-up", ""])
        generation = victim.generation_id + rng.choice((0, 0, 0, -1, -1, 1))
        instance = victim.instance_id
        if rng.random() < 0.2:
            instance = rng.choice((None, "i0", "i1", "nobody"))
        return member_id, generation, instance

    def _heartbeat(self, victim: Consumer) -> None:
        member_id, generation, instance = self._ids(victim)
        request = HeartbeatRequest(
            group_id=self._group_of(victim),
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
        )
        self.world.request(self, request, 4)

    def _group_of(self, victim: Consumer) -> str:
        return self.group_id() if self.world.rng.random() < 0.1 else victim.group_id

    def _sync(self, victim: Consumer) -> None:
        rng = self.world.rng
        member_id, generation, instance = self._ids(victim)
        version = rng.choice((3, 5, 5))
        request = SyncGroupRequest(
            group_id=self._group_of(victim),
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=rng.choice(("consumer", "consumer", "connect")) if version > 3 else None,
            protocol_name=rng.choice((*victim.protocols, None)) if version > 3 else None,
            assignments=[SyncGroupRequestAssignment(member_id=member_id, assignment=b"-")],
        )
        self.world.request(self, request, version)

    def _commit(self, victim: Consumer) -> None:
        request, version = commit_request(self.world, self._group_of(victim), _ALL_PARTITIONS)
        member_id, generation, instance = self._ids(victim)
        request.member_id = member_id
        request.generation_id_or_member_epoch = generation
        request.group_instance_id = instance
        if self.world.rng.random() < 0.1:
            request.group_id, version = "nobody", 9
        self.world.request(self, request, version if instance is None else max(version, 7))

    def _leave(self, victim: Consumer) -> None:
        if self.world.rng.random() < 0.6:
            return
        members = []
        for _ in range(self.world.rng.randint(1, 3)):
            member_id, _, instance = self._ids(victim)
            members.append(LeaveGroupRequestMember(member_id=member_id, group_instance_id=instance))
        request = LeaveGroupRequest(group_id=self._group_of(victim), members=members)
        self.world.request(self, request, 3)

    def _join(self, victim: Consumer) -> None:
        """Send a copy of the victim's JoinGroup."""
        member_id, _, instance = self._ids(victim)
        self._send_join(victim, member_id, instance, victim.protocol_type, victim.protocols)

    def _invalid_join(self, victim: Consumer) -> None:
        """Send a JoinGroup that is refused or changes the victim's protocols."""
        rng = self.world.rng
        protocol_type = rng.choice(("consumer", "connect", ""))
        protocols = rng.choice(((EAGER,), ("unheard-of",), (), ("roundrobin", EAGER)))
        member_id, _, instance = self._ids(victim)
        self._send_join(victim, member_id, instance, protocol_type, protocols)

    def _second_process(self, victim: Consumer) -> None:
        """Start a second process with the victim's instance id."""
        if victim.instance_id is not None:
            self._send_join(victim, "", victim.instance_id, victim.protocol_type, victim.protocols)

    def _use_pending_id(self, _victim: Consumer) -> None:
        """Join with another client's pending member id, or delete the group it is for."""
        rng = self.world.rng
        if not self.world.pending_ids:
            return
        owner, member_id = rng.choice(list(self.world.pending_ids))
        if rng.random() < 0.2:
            self.world.request(self, DeleteGroupsRequest(groups_names=[owner.group_id]), 2)
            return
        instance = rng.choice(("i0", None))
        self._send_join(owner, member_id, instance, owner.protocol_type, owner.protocols)

    def _send_join(
        self,
        victim: Consumer,
        member_id: str,
        instance: str | None,
        protocol_type: str,
        protocols: tuple[str, ...],
    ) -> None:
        rng = self.world.rng
        session_ms = rng.choice((victim.session_ms,) * 8 + (10, 1_800_001))
        request = JoinGroupRequest(
            group_id=self._group_of(victim),
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rng.choice((victim.rebalance_ms,) * 9 + (0,)),
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=victim.metadata(name))
                for name in protocols
            ],
        )
        self.world.request(self, request, rng.choice((5, 7, 9) if instance else (1, 4, 9)))
