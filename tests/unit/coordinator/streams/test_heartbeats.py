"""Epochs, statuses, targets and endpoints of streams groups, heartbeat by heartbeat."""

import pytest

from coterie.coordinator.groups.config import StreamsSettings
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.streams_group_heartbeat import (
    StreamsHeartbeatEndpoint,
    StreamsHeartbeatKeyValue,
)
from tests.unit.coordinator.streams.harness import (
    STATEFUL,
    StreamsHarness,
    statuses,
    subtopology,
    tasks,
    told,
    topology,
)

DELAY = (5, "Assignment delayed due to the configured initial rebalance delay.")
INTERVAL = (5, "Assignment delayed due to the configured assignment interval.")


def test_first_member_has_the_epoch_2_and_all_tasks() -> None:
    harness = StreamsHarness()
    answer = harness.stream("m1", 0)
    assert (answer.member_id, answer.member_epoch, answer.status) == ("m1", 2, [])
    assert told(answer) == {"active": ["0_0", "0_1"]}
    assert answer.heartbeat_interval_ms == 5_000
    assert harness.record_types() == [["19", "23", "17", "21", "20", "22"]]


def test_heartbeat_without_news_writes_nothing() -> None:
    """[streams-groups/member-epochs]"""
    harness = StreamsHarness()
    harness.stream("m1", 0)
    harness.written.clear()
    assert told(harness.stream("m1", 2)) is None
    again = harness.stream("m1", 0)
    assert (again.member_epoch, told(again)) == (2, {"active": ["0_0", "0_1"]})
    assert harness.written == []


# -- the target ------------------------------------------------------------------------------------


def test_initial_delay_ends_with_a_target_of_its_own() -> None:
    """[streams-groups/target]"""
    harness = StreamsHarness(delay_ms=3_000)
    first = harness.stream("m1", 0)
    assert (first.member_epoch, told(first), statuses(first)) == (1, {}, [DELAY])
    harness.wait(2_000)
    second = harness.stream("m2", 0)
    assert (second.member_epoch, statuses(second)) == (1, [DELAY])
    assert harness.streams_group.state_name == "Assigning"
    harness.record_types()
    harness.wait(999)
    assert harness.written == []
    harness.wait(1)
    assert harness.record_types() == [["21", "21", "20"]]
    answers = [told(harness.stream(each, 1)) for each in ("m1", "m2")]
    assert answers == [{"active": ["0_0"]}, {"active": ["0_1"]}]
    assert harness.streams_group.target_epoch == 3


def test_delay_that_ends_without_members_computes_nothing() -> None:
    harness = StreamsHarness(delay_ms=3_000)
    harness.stream("m1", 0)
    harness.stream("m1", -1)
    harness.written.clear()
    harness.wait(3_000)
    assert harness.written == []
    # The next first member begins another delay.
    assert statuses(harness.stream("m2", 0)) == [DELAY]


def test_delay_of_the_first_member_counts_for_a_group_that_was_empty_meanwhile() -> None:
    harness = StreamsHarness(delay_ms=3_000)
    harness.stream("m1", 0)
    harness.stream("m1", -1)
    harness.wait(2_000)
    harness.stream("m2", 0)
    harness.wait(1_000)
    assert harness.streams_group.target_epoch == harness.streams_group.epoch


def test_deleted_group_takes_its_delay_with_it() -> None:
    harness = StreamsHarness(delay_ms=3_000)
    harness.stream("m1", 0)
    harness.stream("m1", -1)
    harness.send_deletion("g")
    harness.wait(1_000)
    harness.stream("m1", 0)
    harness.wait(2_500)
    assert statuses(harness.stream("m1", 1)) == [DELAY]


def test_target_waits_for_the_interval() -> None:
    harness = StreamsHarness(interval_ms=1_000)
    harness.stream("m1", 0)
    harness.wait(999)
    answer = harness.stream("m2", 0)
    assert (answer.member_epoch, told(answer), statuses(answer)) == (2, {}, [INTERVAL])
    assert statuses(harness.stream("m1", 2)) == [INTERVAL]
    harness.wait(1)
    assert statuses(harness.stream("m1", 2)) == []
    assert harness.streams_group.target_epoch == 3


def test_large_target_is_computed_in_parts() -> None:
    """[consumer-groups/large-target]"""
    harness = StreamsHarness({"in": 3_000})
    answer = harness.stream("m1", 0)
    assert (answer.member_epoch, told(answer)) == (1, {})
    assert harness.streams_group.state_name == "Assigning"
    harness.wait(0)
    assert harness.streams_group.computation is None
    answer = harness.stream("m1", 1)
    assert (answer.member_epoch, len(answer.active_tasks[0].partitions)) == (2, 3_000)
    assert harness.in_memory() == harness.in_the_log()


# -- epochs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        {"rack_id": "r"},
        {"rebalance_timeout_ms": 5},
        {"process_id": "p9"},
        {"user_endpoint": StreamsHeartbeatEndpoint(host="h", port=1)},
        {"client_tags": [StreamsHeartbeatKeyValue(key="zone", value="z1")]},
    ],
    ids=lambda change: next(iter(change)),
)
def test_each_datum_of_a_member_raises_the_epoch_once(change: dict[str, object]) -> None:
    """[streams-groups/epoch-bumps]"""
    harness = StreamsHarness()
    harness.stream("m1", 0)
    harness.record_types()
    assert harness.stream("m1", 2, **change).member_epoch == 3
    assert harness.record_types() == [["19", "17", "20", "22"]]
    assert harness.stream("m1", 3, **change).member_epoch == 3
    assert harness.written == []


def test_what_a_heartbeat_does_not_say_stays() -> None:
    harness = StreamsHarness()
    harness.stream("m1", 0, rack_id="r", client_tags=[])
    harness.stream("m1", 2)
    description = harness.streams_group.members["m1"].description
    assert (description.rack_id, description.process_id) == ("r", "p1")
    assert description.rebalance_timeout_ms == 300_000


def test_topic_that_grows_raises_the_epoch_and_gives_more_tasks() -> None:
    harness = StreamsHarness()
    harness.stream("m1", 0)
    harness.create_topic("in", 3)
    answer = harness.stream("m1", 2)
    assert (answer.member_epoch, told(answer)) == (3, {"active": ["0_0", "0_1", "0_2"]})
    harness.create_topic("unrelated", 3)
    assert harness.stream("m1", 3).member_epoch == 3


def test_number_of_standbys_raises_the_epoch() -> None:
    harness = StreamsHarness({"in": 2, "store": 2})
    for each in ("m1", "m2"):
        harness.stream(each, 0, topology=STATEFUL)
    harness.calm("m1", "m2")
    epoch = harness.streams_group.epoch
    harness.settings.default = StreamsSettings(
        assignment_interval_ms=0, initial_rebalance_delay_ms=0, num_standby_replicas=1
    )
    harness.calm("m1", "m2")
    group = harness.streams_group
    assert group.epoch == epoch + 1
    found = {each: group.target(each) for each in group.members}
    assert all(each.standby and each.active for each in found.values())
    assert found["m1"].active == found["m2"].standby


# -- the topology ----------------------------------------------------------------------------------


def test_missing_source_topic_is_a_status_until_it_is_created() -> None:
    """[streams-groups/statuses]"""
    harness = StreamsHarness({})
    answer = harness.stream("m1", 0)
    assert (answer.member_epoch, told(answer)) == (2, {})
    assert statuses(answer) == [(1, "Source topics in are missing.")]
    assert harness.streams_group.state_name == "NotReady"
    harness.create_topic("in", 2)
    answer = harness.stream("m1", 2)
    assert (answer.member_epoch, answer.status) == (3, [])
    assert told(answer) == {"active": ["0_0", "0_1"]}


def test_topology_that_is_not_ready_any_more_takes_all_tasks() -> None:
    harness = StreamsHarness()
    harness.stream("m1", 0)
    harness.delete_topic("in")
    answer = harness.stream("m1", 2)
    assert (answer.member_epoch, told(answer)) == (2, {})
    assert statuses(answer) == [(1, "Source topics in are missing.")]
    assert harness.stream("m1", 2, []).member_epoch == 3
    assert harness.streams_group.validated_epoch == -1


def test_missing_internal_topics_are_told_with_what_they_need() -> None:
    """[streams-groups/internal-topics]"""
    harness = StreamsHarness()
    found = topology(
        subtopology("0", "in", sinks=["middle"]),
        subtopology("1", repartition=["middle"], changelogs=["store"]),
    )
    answer = harness.stream("m1", 0, topology=found)
    ((code, text),) = statuses(answer)
    assert (code, told(answer)) == (3, {})
    assert text.startswith("Internal topics are missing: ")
    missing = harness.coordinator.missing_topics("g")
    assert sorted((each.name, each.partitions) for each in missing) == [("middle", 2), ("store", 2)]
    assert {each.replication_factor for each in missing} == {-1}
    assert all(each.configs == {"cleanup.policy": "compact"} for each in missing)
    for each in missing:
        harness.create_topic(each.name, each.partitions)
    assert told(harness.stream("m1", 2)) == {"active": ["0_0", "0_1", "1_0", "1_1"]}
    assert not harness.coordinator.missing_topics("g")
    assert not harness.coordinator.missing_topics("nobody")


def test_statuses_come_in_kafkas_order() -> None:
    harness = StreamsHarness({}, delay_ms=3_000)
    harness.stream("m1", 0, topology=topology(epoch=5))
    harness.stream("m1", 1, shutdown_application=True)
    answer = harness.stream("m2", 0, topology=topology(epoch=4))
    assert [code for code, _ in statuses(answer)] == [0, 5, 1, 4]


def test_request_to_shut_down_is_told_until_the_group_is_empty() -> None:
    harness = StreamsHarness()
    harness.stream("m1", 0)
    harness.stream("m2", 0)
    text = (
        "Streams group member m2 encountered a fatal error and requested a shutdown for the entire "
        "application."
    )
    assert statuses(harness.stream("m2", 3, shutdown_application=True)) == [(4, text)]
    # The first one counts.
    assert statuses(harness.stream("m1", 2, shutdown_application=True)) == [(4, text)]
    assert statuses(harness.stream("m3", 0)) == [(4, text)]
    for each in ("m1", "m2", "m3"):
        harness.stream(each, -1)
    assert statuses(harness.stream("m1", 0)) == []


def test_member_that_leaves_may_ask_the_others_to_shut_down() -> None:
    harness = StreamsHarness()
    harness.stream("m1", 0)
    harness.stream("m2", 0)
    assert harness.stream("m2", -1, shutdown_application=True).status == []
    assert [code for code, _ in statuses(harness.stream("m1", 2))] == [4]


def test_request_of_the_heartbeat_that_creates_a_group_is_told_once() -> None:
    harness = StreamsHarness()
    answer = harness.stream("m1", 0, shutdown_application=True)
    assert [code for code, _ in statuses(answer)] == [4]
    assert statuses(harness.stream("m1", 2)) == []


# -- endpoints -------------------------------------------------------------------------------------


def test_endpoints_are_told_when_their_epoch_is_another() -> None:
    """[streams-groups/endpoints]"""
    harness = StreamsHarness({"in": 3, "few": 1})
    both = topology(subtopology("0", "in", "few"))
    first = StreamsHeartbeatEndpoint(host="h1", port=7001)
    answer = harness.stream("m1", 0, topology=both, user_endpoint=first)
    assert answer.endpoint_information_epoch == 0
    (found,) = answer.partitions_by_user_endpoint
    assert (found.user_endpoint.host, found.user_endpoint.port) == ("h1", 7001)
    listed = [(each.topic, each.partitions) for each in found.active_partitions]
    assert listed == [("few", [0]), ("in", [0, 1, 2])]
    assert found.standby_partitions == []
    # The rise of the first answer is lost.
    answer = harness.stream("m1", 2, endpoint_information_epoch=0)
    assert (answer.endpoint_information_epoch, answer.partitions_by_user_endpoint) == (0, None)
    answer = harness.stream("m1", 2, endpoint_information_epoch=1)
    assert (answer.endpoint_information_epoch, answer.partitions_by_user_endpoint) == (0, [found])
    # A join of a member without an endpoint raises nothing, one with an endpoint does.
    assert harness.stream("m2", 0, topology=both).endpoint_information_epoch == 0
    second = StreamsHeartbeatEndpoint(host="h3", port=7003)
    answer = harness.stream("m3", 0, topology=both, user_endpoint=second)
    assert answer.endpoint_information_epoch == 1
    hosts = [each.user_endpoint.host for each in answer.partitions_by_user_endpoint]
    assert hosts == ["h1", "h3"]


def test_leaving_does_not_raise_the_epoch_of_the_endpoints() -> None:
    harness = StreamsHarness()
    endpoint = StreamsHeartbeatEndpoint(host="h", port=1)
    harness.stream("m1", 0, user_endpoint=endpoint)
    harness.stream("m2", 0, user_endpoint=endpoint)
    before = harness.streams_group.endpoint_epoch
    harness.stream("m2", -1)
    assert harness.streams_group.endpoint_epoch == before


# -- leaving ---------------------------------------------------------------------------------------


def test_member_that_leaves_is_gone_and_the_others_get_its_tasks() -> None:
    """[streams-groups/member-epochs]"""
    harness = StreamsHarness()
    harness.stream("m1", 0)
    harness.stream("m2", 0)
    harness.calm("m1", "m2")
    harness.record_types()
    answer = harness.stream("m1", -1)
    assert (answer.error_code, answer.member_id, answer.member_epoch) == (0, "m1", -1)
    assert (answer.heartbeat_interval_ms, answer.status, told(answer)) == (0, [], None)
    assert harness.record_types() == [["22-", "21-", "19-", "17"]]
    assert told(harness.stream("m2", 3)) == {"active": ["0_0", "0_1"]}


def test_silent_member_is_removed() -> None:
    """[streams-groups/timers]"""
    harness = StreamsHarness()
    harness.stream("m1", 0)
    harness.wait(44_999)
    harness.stream("m1", 2)
    harness.wait(44_999)
    assert harness.streams_group.members
    harness.wait(1)
    assert not harness.streams_group.members
    assert harness.stream("m1", 2).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_empty_lists_say_that_nothing_is_owned() -> None:
    harness = StreamsHarness()
    harness.stream("m1", 0)
    harness.stream("m2", 0)
    assert told(harness.stream("m1", 2, [])) == {"active": ["0_0"]}
    assert harness.streams_group.members["m1"].epoch == 3
    assert tasks() == []
