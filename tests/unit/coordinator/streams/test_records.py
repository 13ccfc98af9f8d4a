"""The records of streams groups: Kafka's bytes, both ways, and what a load makes of them.

[streams-groups/records]
"""

from typing import Any

import pytest

from coterie.coordinator.groups.streams.states import MemberState
from coterie.coordinator.groups.streams.tasks import (
    NO_TASKS,
    HeldTasks,
    TaskRoles,
    current_value,
    target_value,
)
from coterie.coordinator.groups.streams.topology import logged_topology
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.log_records import decode_key, decode_value, encode_key, encode_value
from coterie.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    StreamsHeartbeatSubtopology,
)
from coterie.protocol.messages.streams_group_records import (
    StreamsEndpoint,
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopologyKey,
    StreamsKeyValue,
)
from coterie.protocol.wire import Message
from tests.unit.coordinator.streams.harness import (
    STATEFUL,
    StreamsHarness,
    internal_topic,
    subtopology,
    tasks,
    told,
    topology,
)

_HASH = 0x1122334455667788
_MEMBER: dict[str, Any] = {
    "instance_id": None,
    "rack_id": None,
    "client_id": "c",
    "client_host": "/127.0.0.1",
    "rebalance_timeout_ms": 300_000,
    "topology_epoch": 0,
    "process_id": "p1",
}


def _with_changelog() -> StreamsHeartbeatSubtopology:
    return subtopology("0", "in", changelogs=["cl"])


# The bytes of Kafka 4.3.1 for fixed inputs.
GOLDEN: tuple[tuple[str, Message, Message, str], ...] = (
    (
        "00110003677270",
        StreamsGroupMetadataKey(group_id="grp"),
        StreamsGroupMetadataValue(
            epoch=3,
            metadata_hash=_HASH,
            validated_topology_epoch=0,
            last_assignment_configs=[StreamsKeyValue(key="num.standby.replicas", value="0")],
        ),
        (
            "000000000003112233445566778802000400000000011902156e756d2e7374616e6462792e7265706c6963"
            "6173023000"
        ),
    ),
    (
        "00110003677270",
        StreamsGroupMetadataKey(group_id="grp"),
        StreamsGroupMetadataValue(epoch=3, metadata_hash=_HASH),
        "000000000003112233445566778800",
    ),
    (
        "0013000367727000026d31",
        StreamsGroupMemberMetadataKey(group_id="grp", member_id="m1"),
        StreamsGroupMemberMetadataValue(**_MEMBER, client_tags=[]),
        "0000000002630b2f3132372e302e302e31000493e000000000037031ff0100",
    ),
    (
        "0013000367727000026d31",
        StreamsGroupMemberMetadataKey(group_id="grp", member_id="m1"),
        StreamsGroupMemberMetadataValue(
            **_MEMBER,
            user_endpoint=StreamsEndpoint(host="h", port=7001),
            client_tags=[StreamsKeyValue(key="zone", value="z1")],
        ),
        "0000000002630b2f3132372e302e302e31000493e0000000000370310102681b590002057a6f6e65037a310000",
    ),
    (
        "00140003677270",
        StreamsGroupTargetAssignmentMetadataKey(group_id="grp"),
        StreamsGroupTargetAssignmentMetadataValue(
            assignment_epoch=3, assignment_timestamp=1_700_000_000_000
        ),
        "0000000000030100080000018bcfe56800",
    ),
    (
        "0015000367727000026d31",
        StreamsGroupTargetAssignmentMemberKey(group_id="grp", member_id="m1"),
        target_value(TaskRoles({"0": (0, 1)})),
        "000002023003000000000000000100010100",
    ),
    (
        "0016000367727000026d31",
        StreamsGroupCurrentMemberAssignmentKey(group_id="grp", member_id="m1"),
        current_value(3, 2, MemberState.STABLE, HeldTasks({"0": {0: 3, 1: 3}}), NO_TASKS),
        "0000000000030000000201020230030000000000000001010009030000000300000003010101010100",
    ),
    (
        "00170003677270",
        StreamsGroupTopologyKey(group_id="grp"),
        logged_topology(topology(_with_changelog())),
        (
            "0000000000000202300203696e010203636c00000000ffff020f636c65616e75702e706f6c69637908636f"
            "6d7061637400000101010000"
        ),
    ),
)


@pytest.mark.parametrize(("key_bytes", "key", "value", "value_bytes"), GOLDEN)
def test_records_have_kafkas_bytes(
    key_bytes: str, key: Message, value: Message, value_bytes: str
) -> None:
    raw_key, raw_value = bytes.fromhex(key_bytes), bytes.fromhex(value_bytes)
    assert (encode_key(key), encode_value(value)) == (raw_key, raw_value)
    assert decode_key(raw_key) == key
    assert decode_value(key, raw_value) == value


def test_heartbeat_and_answer_have_kafkas_bytes() -> None:
    raw = bytes.fromhex(
        "04677270036d3100000000ffffffff0000000493e001000000000202300203696e0101010101000001010103"
        "7031ff0100000000"
    )
    request = StreamsGroupHeartbeatRequest.decode(raw, 0)
    assert (request.group_id, request.member_epoch, request.process_id) == ("grp", 0, "p1")
    assert request.encode(0) == raw
    raw = bytes.fromhex(
        "00000000000000036d310000000300001388000000000000000001020230030000000000000001000101"
        "000000000000"
    )
    answer = StreamsGroupHeartbeatResponse.decode(raw, 0)
    assert told(answer) == {"active": ["0_0", "0_1"]}
    assert answer.encode(0) == raw


def test_heartbeat_writes_such_bytes() -> None:
    harness = StreamsHarness({"in": 2, "cl": 2})
    harness.stream("m1", 0, topology=topology(_with_changelog()))
    values = {
        encode_key(key)[:2]: encode_value(value) for key, value in harness.written[0] if value
    }
    by_type = {key[:4]: value for key, _, _, value in GOLDEN}
    assert values[b"\0\x17"].hex() == by_type["0017"]
    assert values[b"\0\x15"].hex() == by_type["0015"]
    # At epoch 2 and after 0.
    assert values[b"\0\x16"].hex() == by_type["0016"].replace(
        "000000000003000000020102", "000000000002000000000102"
    ).replace("09030000000300000003", "09030000000200000002")


# -- loading ---------------------------------------------------------------------------------------


def _group_in_motion() -> StreamsHarness:
    harness = StreamsHarness({"in": 3, "store": 3}, standbys=1)
    for each in ("m1", "m2", "m3"):
        harness.stream(each, 0, topology=STATEFUL)
    harness.stream("m1", 2)
    harness.stream("m2", 3)
    return harness


def test_log_gives_the_group_that_wrote_it() -> None:
    harness = _group_in_motion()
    before = harness.in_memory()
    assert before == harness.in_the_log()
    assert len(before) == 3 + 3 * 3
    group = harness.streams_group
    state, holders = group.state_name, group.holders
    harness.restart()
    loaded = harness.streams_group
    assert harness.in_memory() == before
    assert (loaded.state_name, loaded.epoch) == (state, group.epoch)
    for index in range(3):
        assert loaded.holders.is_active("0", index) == holders.is_active("0", index)


def test_compacted_log_gives_the_same_whatever_the_order_of_its_keys() -> None:
    harness = _group_in_motion()
    before = harness.in_memory()
    newest = dict(harness.logs[0].durable)
    harness.logs[0].durable = list(newest.items())[::-1]
    harness.restart()
    assert harness.in_memory() == before
    # Holders are those of the processes that are read later.
    for member in harness.streams_group.members.values():
        for index in member.assigned.active.get("0", ()):
            assert harness.streams_group.holders.is_active_in("0", index, member.process_id)


def test_tombstones_of_what_is_not_there_change_nothing() -> None:
    harness = StreamsHarness()
    harness.stream("m1", 0)
    harness.stream("m1", -1)
    harness.send_deletion("g")
    durable = harness.logs[0].durable
    harness.logs[0].durable = [(key, value) for key, value in durable if value is None]
    harness.restart()
    assert harness.coordinator.group("g") is None
    assert harness.in_memory() == {}


def test_active_tasks_without_epochs_have_that_of_the_member() -> None:
    harness = StreamsHarness()
    harness.stream("m1", 0)
    (key,) = [key for key, _ in harness.written[0] if encode_key(key)[1] == 0x16]
    value = current_value(2, 0, MemberState.STABLE, HeldTasks({"0": {0: 2, 1: 2}}), NO_TASKS)
    value.active_tasks[0].assignment_epochs = None
    harness.load(*harness.written[0][:-1], (key, value))
    assert harness.streams_group.members["m1"].assigned.active == {"0": {0: 2, 1: 2}}


def test_loaded_members_have_a_whole_session_and_their_rebalance_timeout() -> None:
    """[streams-groups/timers]"""
    harness = StreamsHarness()
    harness.stream("m1", 0, rebalance_timeout_ms=20_000)
    harness.stream("m2", 0)
    harness.stream("m1", 2)
    harness.wait(15_000)
    harness.restart()
    harness.wait(19_999)
    assert set(harness.streams_group.members) == {"m1", "m2"}
    harness.wait(1)
    assert set(harness.streams_group.members) == {"m2"}
    harness.wait(25_000)
    assert not harness.streams_group.members


def test_loaded_group_goes_on_with_its_epochs() -> None:
    harness = StreamsHarness(delay_ms=3_000)
    harness.stream("m1", 0)
    harness.restart()
    # The delay is not logged: the next heartbeat computes the target.
    answer = harness.stream("m1", 1)
    assert (answer.member_epoch, told(answer)) == (2, {"active": ["0_0", "0_1"]})
    harness.restart()
    assert harness.stream("m1", 2).member_epoch == 2
    harness.create_topic("in", 3)
    harness.restart()
    assert harness.stream("m1", 2).member_epoch == 3


def test_topics_that_changed_before_the_load_are_noticed() -> None:
    harness = StreamsHarness()
    harness.stream("m1", 0)
    harness.create_topic("in", 4)
    harness.restart()
    assert told(harness.stream("m1", 2)) == {"active": ["0_0", "0_1", "0_2", "0_3"]}


# -- operations that do not fit --------------------------------------------------------------------


def test_description_that_is_larger_than_a_batch_is_refused() -> None:
    """[coordinator/operation-size]"""
    harness = StreamsHarness()
    harness.stream("m1", 0)
    before = harness.in_memory()
    large = subtopology("0", "in")
    large.state_changelog_topics = [internal_topic("n" * 1_100_000)]
    answer = StreamsHarness().stream("m1", 0, topology=topology(large))
    assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    for epoch, member_id in ((2, "m1"), (0, "m2")):
        answer = harness.stream(member_id, epoch, rack_id="r" * 1_100_000)
        assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    group = harness.streams_group
    assert harness.in_memory() == before
    assert (group.unlogged, group.most_members, list(group.members)) == (0, 1, ["m1"])
    assert group.members["m1"].deadline_ms == harness.now_ms + 45_000
    assert told(harness.stream("m1", 0)) == {"active": ["0_0", "0_1"]}
    assert harness.stream("m1", 2, tasks(0, 1)).member_epoch == 2
