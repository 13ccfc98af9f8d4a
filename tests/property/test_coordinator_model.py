"""Any sequence of requests, times and faults on one group: every check of the simulation holds.

The simulation plays clients that mostly do the sensible thing; here nobody does. Four players send
whatever is drawn, with the ids and generations they were told or others; a failure shrinks to the
few steps that matter.
"""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.coordinator.config import GroupConfig
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.delete_groups import DeleteGroupsRequest
from coterie.protocol.messages.describe_groups import DescribeGroupsRequest
from coterie.protocol.messages.heartbeat import HeartbeatRequest
from coterie.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from coterie.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupRequestMember
from coterie.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from coterie.protocol.messages.offset_fetch import OffsetFetchRequest
from coterie.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.simulation.call import Call
from tests.simulation.subject import Subject

START_MS = 1_700_000_000_000
# Appends wait as long as a test likes; answers that wait for them are never late here.
FOREVER_MS = 10**9
SUBSCRIPTION = b"\0\0\0\0\0\x01\0\x02t0\0\0\0\0"

PLAYERS = ("a", "b", "s1", "s1 again")
INSTANCES = {"s1": "s", "s1 again": "s"}

player = st.sampled_from(PLAYERS)
VERSIONS = st.sampled_from([3, 9])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("join"), player, VERSIONS, st.integers(0, 2)),
        st.tuples(st.just("join anew"), player, VERSIONS, st.integers(0, 2)),
        st.tuples(st.just("sync"), player, st.integers(-1, 1), st.booleans()),
        st.tuples(st.just("heartbeat"), player, st.integers(-1, 1)),
        st.tuples(st.just("leave"), player),
        st.tuples(st.just("commit"), player, st.booleans()),
        st.tuples(st.just("fetch")),
        st.tuples(st.just("delete")),
        st.tuples(st.just("describe")),
        st.tuples(st.just("wait"), st.sampled_from([1, 500, 1_000, 2_000, 3_000, 10_000])),
        st.tuples(st.just("acknowledge"), st.integers(1, 4)),
        st.tuples(st.just("fail"), st.sampled_from([19, 56, 10])),
        st.tuples(st.just("settle"), st.integers(1, 3)),
        st.tuples(st.just("restart"), st.integers(0, 3)),
        st.tuples(st.just("move"), st.integers(0, 3)),
    ),
    max_size=60,
)


class Play:
    """The players, what they were told, and the coordinator under test."""

    def __init__(self, delay_ms: int) -> None:
        config = GroupConfig(
            group_min_session_timeout_ms=1_000,
            group_initial_rebalance_delay_ms=delay_ms,
            offsets_retention_ms=8_000,
            offsets_retention_check_interval_ms=2_500,
            offsets_topic_num_partitions=1,
        )
        self.subject = Subject(config, FOREVER_MS, START_MS)
        self.calls = 0
        self.member_ids = dict.fromkeys(PLAYERS, "")
        self.generations = dict.fromkeys(PLAYERS, 0)

    def step(self, verb: str, *arguments: Any) -> None:
        """Do one step; all checks look at it."""
        getattr(self, verb.replace(" ", "_"))(*arguments)
        for call, message in self.subject.outbox:
            if call.api == "JoinGroup" and call.client in self.member_ids:
                self.member_ids[call.client] = message.member_id
                if message.error_code == ErrorCode.NONE:
                    self.generations[call.client] = message.generation_id
        self.subject.outbox.clear()
        self.subject.appends.clear()
        self.subject.look_at_everything()

    def send(self, request: Any, version: int, client: str = "admin") -> None:
        self.calls += 1
        self.subject.send(Call(self.calls, request, version, client, self.subject.now_ms))

    def settle(self, count: int) -> None:
        """Bring the first players into one Stable generation, as far as nothing is in the way."""
        players = PLAYERS[:count]
        for who in players:
            for _ in range(2):
                self.step("join", who, 9, 1)
                self.step("acknowledge", 10**6)
        self.step("wait", 2_000)  # the initial delay, and the slice that the second one bought
        for who in players:
            self.step("sync", who, 0, True)
        self.step("acknowledge", 10**6)

    # -- the steps ---------------------------------------------------------------------------------

    def join(self, who: str, version: int, taste: int) -> None:
        instance = INSTANCES.get(who)
        names = (("range",), ("range", "sticky"), ("sticky", "range"))[taste]
        request = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=3_000 if instance is None else 5_000,
            rebalance_timeout_ms=(2_000, 4_000, 0)[taste],
            member_id=self.member_ids[who],
            group_instance_id=instance,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name=n, metadata=SUBSCRIPTION) for n in names],
        )
        self.send(request, 9 if instance is not None else version, who)

    def join_anew(self, who: str, version: int, taste: int) -> None:
        self.member_ids[who] = ""
        self.join(who, version, taste)

    def sync(self, who: str, offset: int, everybody: bool) -> None:
        members = self.member_ids.values() if everybody else [self.member_ids[who]]
        request = SyncGroupRequest(
            group_id="g",
            generation_id=self.generations[who] + offset,
            member_id=self.member_ids[who],
            group_instance_id=INSTANCES.get(who),
            assignments=[
                SyncGroupRequestAssignment(member_id=each, assignment=f"t0-{index}".encode())
                for index, each in enumerate(dict.fromkeys(members))
            ],
        )
        self.send(request, 3, who)

    def heartbeat(self, who: str, offset: int) -> None:
        request = HeartbeatRequest(
            group_id="g",
            generation_id=self.generations[who] + offset,
            member_id=self.member_ids[who],
            group_instance_id=INSTANCES.get(who),
        )
        self.send(request, 4, who)

    def leave(self, who: str) -> None:
        member = LeaveGroupRequestMember(
            member_id=self.member_ids[who], group_instance_id=INSTANCES.get(who)
        )
        self.send(LeaveGroupRequest(group_id="g", members=[member]), 4, who)

    def commit(self, who: str, from_outside: bool) -> None:
        partitions = [
            OffsetCommitRequestPartition(
                partition_index=index, committed_offset=self.calls, committed_metadata=None
            )
            for index in range(2)
        ]
        request = OffsetCommitRequest(
            group_id="g",
            generation_id_or_member_epoch=-1 if from_outside else self.generations[who],
            member_id="" if from_outside else self.member_ids[who],
            topics=[OffsetCommitRequestTopic(name="t0", partitions=partitions)],
        )
        self.send(request, 8, who)

    def fetch(self) -> None:
        self.send(OffsetFetchRequest(group_id="g", topics=None), 5)

    def delete(self) -> None:
        self.send(DeleteGroupsRequest(groups_names=["g"]), 2)

    def describe(self) -> None:
        self.send(DescribeGroupsRequest(groups=["g"]), 5)

    def wait(self, delay_ms: int) -> None:
        subject = self.subject
        end_ms = subject.now_ms + delay_ms
        while (next_ms := subject.coordinator.next_deadline_ms()) is not None and next_ms <= end_ms:
            subject.now_ms = max(subject.now_ms, next_ms)
            subject.advance()
        subject.now_ms = end_ms

    def acknowledge(self, count: int) -> None:
        count = min(count, len(self.subject.logs[0].pending))
        if count:
            self.subject.acknowledge(0, count)

    def fail(self, error: int) -> None:
        self.subject.fail_append(0, ErrorCode(error))

    def restart(self, survivors: int) -> None:
        self.subject.restart(lambda pending: min(survivors, pending), 2_147_483_647)

    def move(self, survivors: int) -> None:
        self.subject.unload(0, lambda pending: min(survivors, pending))
        self.describe()
        self.subject.load(0)


@given(st.sampled_from([0, 1_000]), st.integers(0, 3), STEPS)
@settings(max_examples=150, deadline=None)
def test_whatever_happens_every_check_holds(
    delay_ms: int, settled: int, steps: list[tuple[Any, ...]]
) -> None:
    play = Play(delay_ms)
    play.settle(settled)
    for verb, *arguments in steps:
        play.step(verb, *arguments)
    # Everything on its way arrives, everybody falls silent: nothing is left but the sweep.
    play.step("acknowledge", 10**6)
    play.step("wait", 20_000)
    play.step("acknowledge", 10**6)
    play.step("wait", 400_000)
    play.step("acknowledge", 10**6)
    assert len(play.subject.coordinator.purgatory) == 1
    assert not play.subject.ledger.open
