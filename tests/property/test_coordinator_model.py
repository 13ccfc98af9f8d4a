"""Any sequence of requests, times and faults on one group violates no invariant of the simulation.

Clients of the simulation mostly behave sensibly. The four clients here send whatever Hypothesis
draws, with their own ids and generations or with wrong ones. Hypothesis shrinks a failure to the
few steps that matter.

Rules: [group-log/replay].
"""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.coordinator.groups.config import GroupConfig
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
from tests.simulation.checked_coordinator import CheckedCoordinator

# An append may stay pending for any time, so a response that waits for it is never late.
FOREVER_MS = 10**9
SUBSCRIPTION = b"\0\0\0\0\0\x01\0\x02t0\0\0\0\0"

CLIENTS = ("a", "b", "s1", "s1 again")
INSTANCES = {"s1": "s", "s1 again": "s"}

client = st.sampled_from(CLIENTS)
VERSIONS = st.sampled_from([3, 9])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("join"), client, VERSIONS, st.integers(0, 2)),
        st.tuples(st.just("join anew"), client, VERSIONS, st.integers(0, 2)),
        st.tuples(st.just("sync"), client, st.integers(-1, 1), st.booleans()),
        st.tuples(st.just("heartbeat"), client, st.integers(-1, 1)),
        st.tuples(st.just("leave"), client),
        st.tuples(st.just("commit"), client, st.booleans()),
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


class Model:
    """The clients, what they know, and the coordinator under test."""

    def __init__(self, delay_ms: int) -> None:
        config = GroupConfig(
            group_min_session_timeout_ms=1_000,
            group_initial_rebalance_delay_ms=delay_ms,
            offsets_retention_ms=8_000,
            offsets_retention_check_interval_ms=2_500,
            offsets_topic_num_partitions=1,
        )
        self.harness = CheckedCoordinator(config, FOREVER_MS)
        self.calls = 0
        self.member_ids = dict.fromkeys(CLIENTS, "")
        self.generations = dict.fromkeys(CLIENTS, 0)

    def step(self, verb: str, *arguments: Any) -> None:
        """Do one step and run all checks."""
        getattr(self, verb.replace(" ", "_"))(*arguments)
        for call, message in self.harness.outbox:
            if call.api == "JoinGroup" and call.client in self.member_ids:
                self.member_ids[call.client] = message.member_id
                if message.error_code == ErrorCode.NONE:
                    self.generations[call.client] = message.generation_id
        self.harness.outbox.clear()
        self.harness.appended.clear()
        self.harness.check_everything()

    def send(self, request: Any, version: int, client: str = "admin") -> None:
        self.calls += 1
        self.harness.send(Call(self.calls, request, version, client, self.harness.now_ms))

    def settle(self, count: int) -> None:
        """Bring the first clients into one Stable generation, unless something prevents it."""
        clients = CLIENTS[:count]
        for who in clients:
            for _ in range(2):
                self.step("join", who, 9, 1)
                self.step("acknowledge", 10**6)
        self.step("wait", 2_000)  # the initial delay and its extension
        for who in clients:
            self.step("sync", who, 0, True)
        self.step("acknowledge", 10**6)

    # -- the steps ---------------------------------------------------------------------------------

    def join(self, who: str, version: int, choice: int) -> None:
        instance = INSTANCES.get(who)
        names = (("range",), ("range", "sticky"), ("sticky", "range"))[choice]
        request = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=3_000 if instance is None else 5_000,
            rebalance_timeout_ms=(2_000, 4_000, 0)[choice],
            member_id=self.member_ids[who],
            group_instance_id=instance,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name=n, metadata=SUBSCRIPTION) for n in names],
        )
        self.send(request, 9 if instance is not None else version, who)

    def join_anew(self, who: str, version: int, choice: int) -> None:
        self.member_ids[who] = ""
        self.join(who, version, choice)

    def sync(self, who: str, offset: int, for_all: bool) -> None:
        members = self.member_ids.values() if for_all else [self.member_ids[who]]
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
        self.harness.wait(delay_ms)

    def acknowledge(self, count: int) -> None:
        count = min(count, len(self.harness.logs[0].pending))
        if count:
            self.harness.acknowledge(0, count)

    def fail(self, error: int) -> None:
        self.harness.fail_appends(0, ErrorCode(error))

    def restart(self, survivors: int) -> None:
        self.harness.crash(lambda pending: min(survivors, pending), 2_147_483_647)

    def move(self, survivors: int) -> None:
        self.harness.unload(0, lambda pending: min(survivors, pending))
        self.describe()
        self.harness.load(0)


@given(st.sampled_from([0, 1_000]), st.integers(0, 3), STEPS)
@settings(max_examples=150, deadline=None)
def test_no_sequence_of_steps_violates_an_invariant(
    delay_ms: int, settled: int, steps: list[tuple[Any, ...]]
) -> None:
    model = Model(delay_ms)
    model.settle(settled)
    for verb, *arguments in steps:
        model.step(verb, *arguments)
    # After all appends are durable and all clients are silent, only the sweep timer is left.
    model.step("acknowledge", 10**6)
    model.step("wait", 20_000)
    model.step("acknowledge", 10**6)
    model.step("wait", 400_000)
    model.step("acknowledge", 10**6)
    assert len(model.harness.coordinator.purgatory) == 1
    assert not model.harness.requests.open
