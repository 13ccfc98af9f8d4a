"""Streams groups on a broker: handlers, internal topics, settings, the feature, rights."""

from typing import Any

import pytest

from coterie.coordinator.groups.streams.group import StreamsGroup
from coterie.protocol.authorized_operations import AclOperation
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsRequestResource,
)
from coterie.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from coterie.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsHeartbeatKeyValue,
    StreamsHeartbeatTopology,
)
from coterie.protocol.resources import ResourceType
from coterie.server.broker import Broker
from coterie.server.config.config import Config
from coterie.server.config.keys import InvalidValue
from tests.unit.coordinator.streams.harness import statuses, subtopology, told, topology
from tests.unit.server.manual import Client, make_broker, wait_for_disk
from tests.unit.server.test_authorizer import (
    CLUSTER,
    DENIED,
    GROUP,
    acl,
    allow,
    client_of,
    secured,
    settle,
)

GROUP_RESOURCE = 32
_MISSING = "Internal topics are missing: store"


def stateful(**configs: str) -> StreamsHeartbeatTopology:
    """Return a topology with a changelog that has settings."""
    found = subtopology("0", "in", changelogs=["store"])
    (changelog,) = found.state_changelog_topics
    changelog.topic_configs = [
        StreamsHeartbeatKeyValue(key=key.replace("_", "."), value=value)
        for key, value in configs.items()
    ]
    whole: StreamsHeartbeatTopology = topology(found)
    return whole


def heartbeat(epoch: int, member_id: str = "m1", **fields: Any) -> StreamsGroupHeartbeatRequest:
    """Return a heartbeat of the group g; one that joins has all that a join needs."""
    if epoch == 0:
        fields = {
            "rebalance_timeout_ms": 60_000,
            "topology": topology(),
            "process_id": member_id,
            "active_tasks": [],
            "standby_tasks": [],
            "warmup_tasks": [],
            **fields,
        }
    return StreamsGroupHeartbeatRequest(
        group_id="g",
        member_id=member_id,
        member_epoch=epoch,
        endpoint_information_epoch=0,
        **fields,
    )


class Members(Client):
    """The members of the streams group g, on one connection; nothing is synced."""

    def __init__(self, **settings: str) -> None:
        given = {"group.streams.initial.rebalance.delay.ms": "0"}
        given |= {key.replace("_", "."): value for key, value in settings.items()}
        super().__init__(make_broker(given))
        self.broker.controller.create("in", 2, {})

    @property
    def group(self) -> StreamsGroup:
        group = self.broker.coordinator.group("g")
        assert isinstance(group, StreamsGroup)
        return group

    def beat(self, epoch: int, member_id: str = "m1", **fields: Any) -> Any:
        return self.ask(heartbeat(epoch, member_id, **fields))

    def ask(self, request: Any, version: int = 0) -> Any:
        """Return the response to a request that may write."""
        self.send(request, version)
        wait_for_disk(self)
        wait_for_disk(self)
        ((_, answer),) = self.answers()
        return answer


def test_internal_topics_are_created_after_the_answer_that_lists_them() -> None:
    """[streams-groups/internal-topics]"""
    members = Members()
    answer = members.beat(0, topology=stateful(cleanup_policy="compact", segment_bytes="1048576"))
    assert statuses(answer) == [(3, _MISSING)]
    topic = members.broker.topics.by_name["store"]
    assert topic.partition_count == 2
    assert topic.config.overrides == {"cleanup.policy": "compact", "segment.bytes": "1048576"}
    members.loop.advance(1_000)
    answer = members.beat(2)
    assert (answer.member_epoch, answer.status) == (3, [])
    assert told(answer) == {"active": ["0_0", "0_1"]}


def test_failed_creation_is_told_for_two_intervals_and_tried_again() -> None:
    members = Members()
    wrong = stateful(cleanup_policy="maybe")
    assert statuses(members.beat(0, topology=wrong)) == [(3, _MISSING)]
    ((code, text),) = statuses(members.beat(2))
    assert (code, "store" in members.broker.topics.by_name) == (3, False)
    assert text.startswith(f"{_MISSING}; Creation failed: store (")
    assert "cleanup.policy" in text
    members.loop.advance(9_900)
    assert "Creation failed" in statuses(members.beat(2))[0][1]
    members.loop.advance(200)
    # It is being tried again, and has not failed yet.
    assert statuses(members.beat(2)) == [(3, _MISSING)]
    assert "Creation failed" in statuses(members.beat(2))[0][1]


def test_topics_that_no_application_may_have_are_refused() -> None:
    """[streams-groups/order-of-checks]"""
    members = Members()
    for name, text in (
        (
            "__consumer_offsets",
            (
                "Use of Kafka internal topics __consumer_offsets in a Kafka Streams topology is "
                "prohibited."
            ),
        ),
        ("a b", "Topic names a b are not valid topic names."),
    ):
        answer = members.beat(0, topology=topology(subtopology("0", name)))
        assert answer.error_code == ErrorCode.STREAMS_INVALID_TOPOLOGY
        assert answer.error_message == text


@pytest.mark.parametrize("by_feature", [True, False])
def test_switched_off_groups_answer_nothing(by_feature: bool) -> None:
    """[streams-groups/switched-off]"""
    if by_feature:
        members = Members()
        members.broker.features.start_with({"streams.version": 0})
    else:
        members = Members(group_coordinator_rebalance_protocols="classic,consumer")
    assert members.beat(0).error_code == ErrorCode.UNSUPPORTED_VERSION
    (group,) = members.ask(StreamsGroupDescribeRequest(group_ids=["g"])).groups
    assert group.error_code == ErrorCode.UNSUPPORTED_VERSION


def test_many_groups_are_described_in_parts_and_once() -> None:
    members = Members()
    members.beat(0)
    asked = ["", "g", *(f"absent-{number}" for number in range(20)), "g"]
    groups = members.ask(StreamsGroupDescribeRequest(group_ids=asked)).groups
    assert [each.group_id for each in groups] == list(dict.fromkeys(["", *asked]))
    found = {each.group_id: each for each in groups}
    assert [each.member_id for each in found["g"].members] == ["m1"]
    assert found["absent-3"].error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_settings_of_a_group_hold_from_the_next_heartbeat_on() -> None:
    members = Members()
    members.broker.controller.create("store", 2, {})
    assert members.beat(0, topology=stateful()).heartbeat_interval_ms == 5_000
    configs = [
        IncrementalAlterConfigsRequestConfig(name=name, config_operation=0, value=value)
        for name, value in (
            ("streams.heartbeat.interval.ms", "6000"),
            ("streams.num.standby.replicas", "1"),
        )
    ]
    resource = IncrementalAlterConfigsRequestResource(
        resource_type=GROUP_RESOURCE, resource_name="g", configs=configs
    )
    members.ask(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1)
    answer = members.beat(2)
    # The target of the new epoch waits for the assignment interval.
    assert (answer.heartbeat_interval_ms, [code for code, _ in statuses(answer)]) == (6_000, [5])
    assert members.group.epoch == 3


@pytest.mark.parametrize(
    "values",
    [
        {"group.streams.session.timeout.ms": "44999"},
        {"group.streams.heartbeat.interval.ms": "15001"},
        {"group.streams.assignment.interval.ms": "15001"},
        {"group.streams.num.standby.replicas": "3"},
        {
            "group.streams.min.session.timeout.ms": "5000",
            "group.streams.session.timeout.ms": "5000",
        },
    ],
)
def test_settings_that_contradict_are_refused_at_the_start(values: dict[str, str]) -> None:
    """[settings/groups]"""
    with pytest.raises(InvalidValue, match=r"group\.streams"):
        Config(values)


def test_number_of_standbys_is_cut_to_what_the_broker_allows() -> None:
    config = Config({"group.streams.max.standby.replicas": "1"})
    config.set_resources(GROUP_RESOURCE, {"g": {"streams.num.standby.replicas": "2"}})
    found = config.group_config().streams.settings
    assert (found.of("g").num_standby_replicas, found.default.num_standby_replicas) == (1, 0)


def test_no_turn_of_a_large_group_is_long() -> None:
    """`Client.send` and the loop fail a test when a turn uses more than 20 ms of a processor."""
    members = Members()
    members.broker.controller.create("big", 5_000, {})
    members.loop.turn()
    large = topology(subtopology("0", "big"))

    def computed() -> None:
        while members.group.computation is not None:
            members.loop.advance(1)
        wait_for_disk(members)

    members.beat(0, topology=large)
    computed()
    assert len(members.beat(1).active_tasks[0].partitions) == 5_000
    for number in range(20):
        members.beat(0, f"more-{number}", topology=large)
    members.loop.advance(1_000)
    members.beat(2)
    computed()
    assert len(members.beat(2).active_tasks[0].partitions) in (238, 239)


# -- rights ----------------------------------------------------------------------------------------


def _secured() -> tuple[Broker, Client]:
    broker = secured(group_streams_initial_rebalance_delay_ms="0")
    broker.controller.create("in", 2, {})
    return broker, client_of(broker, "alice")


def test_heartbeat_needs_the_group_then_legal_names_then_each_topic() -> None:
    broker, alice = _secured()

    def error(name: str) -> int:
        request = heartbeat(0, topology=topology(subtopology("0", name)))
        found: int = settle(alice, request, 0).error_code
        return found

    assert error("a b") == ErrorCode.GROUP_AUTHORIZATION_FAILED
    allow(broker, acl(AclOperation.READ, GROUP, "g"))
    assert error("a b") == ErrorCode.STREAMS_INVALID_TOPOLOGY
    assert error("in") == DENIED
    allow(broker, acl(AclOperation.DESCRIBE, name="in"))
    assert error("in") == 0
    # One that it only writes needs the right, too.
    for other in (stateful(), topology(subtopology("0", "in", sinks=["out"]))):
        request = heartbeat(0, "m2", topology=other)
        assert settle(alice, request, 0).error_code == DENIED


@pytest.mark.parametrize(
    ("kind", "name"), [(CLUSTER, "kafka-cluster"), (ResourceType.TOPIC, "store")]
)
def test_internal_topics_need_the_right_to_create_them(kind: ResourceType, name: str) -> None:
    """[streams-groups/internal-topics]"""
    broker, alice = _secured()
    allow(broker, acl(AclOperation.READ, GROUP, "g"))
    allow(broker, *(acl(AclOperation.DESCRIBE, name=each) for each in ("in", "store")))
    answer = settle(alice, heartbeat(0, topology=stateful()), 0)
    assert statuses(answer) == [(3, f"{_MISSING}; Unauthorized to CREATE on topics store.")]
    assert "store" not in broker.topics.by_name
    allow(broker, acl(AclOperation.CREATE, kind, name))
    assert statuses(settle(alice, heartbeat(2), 0)) == [(3, _MISSING)]
    wait_for_disk(alice)
    assert "store" in broker.topics.by_name


def test_description_needs_the_group_and_its_topics() -> None:
    broker, alice = _secured()
    settle(Client(broker), heartbeat(0), 0)
    request = StreamsGroupDescribeRequest(group_ids=["g"])

    def error() -> int:
        (group,) = settle(alice, request, 0).groups
        found: int = group.error_code
        return found

    assert error() == ErrorCode.GROUP_AUTHORIZATION_FAILED
    allow(broker, acl(AclOperation.DESCRIBE, GROUP, "g"))
    (group,) = settle(alice, request, 0).groups
    assert (group.error_code, group.members, group.topology) == (DENIED, [], None)
    allow(broker, acl(AclOperation.DESCRIBE, name="in"))
    (group,) = settle(alice, request, 0).groups
    assert (group.error_code, [each.member_id for each in group.members]) == (0, ["m1"])
