"""What decides about consumer groups (KIP-848): settings of a group, the feature, the release."""

from collections.abc import Callable

import kafka.admin
import pytest
from confluent_kafka import ConsumerGroupType
from confluent_kafka.admin import AdminClient

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from coterie.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from tests.interop.requests import ask
from tests.live.broker_process import FAST_CONSUMER_GROUPS, BrokerProcess
from tests.live.consumer_groups import ConsumerGroups, groups
from tests.live.deadlines import eventually
from tests.live.groups import GroupView, produce_rows
from tests.live.members import wait_all_read, wait_assigned

__all__ = ["groups"]

PARTITIONS = 4
LIMIT_S = 30.0


def heartbeat(
    bootstrap: str, group: str, epoch: int, version: int = 1
) -> ConsumerGroupHeartbeatResponse:
    """Send the heartbeat of a member without topics; epoch 0 joins.

    A broker that has just started may still be loading its groups.
    """
    joins = epoch == 0
    request = ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id="member",
        member_epoch=epoch,
        rebalance_timeout_ms=60_000 if joins else -1,
        subscribed_topic_names=[] if joins else None,
        topic_partitions=[] if joins else None,
    )

    def answered() -> ConsumerGroupHeartbeatResponse | None:
        response: ConsumerGroupHeartbeatResponse = ask(bootstrap, request, version)
        is_loading = response.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return None if is_loading else response

    found = eventually(answered, "the groups are loaded")
    assert found is not None, "`eventually` returns true results only"
    return found


def error_of_join(bootstrap: str, group: str, version: int = 1) -> ErrorCode:
    """Return what is answered to a join of a consumer group."""
    return ErrorCode(heartbeat(bootstrap, group, 0, version).error_code)


def error_of_description(bootstrap: str, group: str) -> ErrorCode:
    """Return what is answered to a request to describe a consumer group."""
    (described,) = ask(bootstrap, ConsumerGroupDescribeRequest(group_ids=[group]), 1).groups
    return ErrorCode(described.error_code)


def test_settings_of_a_group_hold_from_the_next_heartbeat_on(groups: ConsumerGroups) -> None:
    """The interval of the heartbeats, and the session timeout of a member that is silent."""
    bootstrap, group = groups.broker.bootstrap, groups.topic
    joined = heartbeat(bootstrap, group, 0)
    assert joined.error_code == ErrorCode.NONE
    groups.alter({"consumer.heartbeat.interval.ms": "1234"})
    answered = heartbeat(bootstrap, group, joined.member_epoch)
    assert (answered.error_code, answered.heartbeat_interval_ms) == (ErrorCode.NONE, 1234)
    described = groups.described()["consumer.heartbeat.interval.ms"]
    assert (described["value"], described["config_source"]) == ("1234", "DYNAMIC_GROUP_CONFIG")
    view = GroupView(bootstrap, group)
    assert len(view.member_ids()) == 1
    groups.shorten_session()
    heartbeat(bootstrap, group, joined.member_epoch)
    view.wait_state("EMPTY", members=0)


def test_feature_is_switched_off_while_groups_live(
    start_broker: Callable[..., BrokerProcess], name: str
) -> None:
    """At level 0 heartbeats are refused, and the members expire; the offsets and epochs stay."""
    broker = start_broker(FAST_CONSUMER_GROUPS)
    groups = ConsumerGroups(broker, name)
    groups.create_topic(PARTITIONS)
    groups.shorten_session()
    view = GroupView(broker.bootstrap, name)
    try:
        member = groups.consumer()
        wait_assigned([member], name, PARTITIONS)
        stored = produce_rows(broker.bootstrap, name, PARTITIONS, 40)
        wait_all_read([member], stored)
        view.wait_state("STABLE", members=1)
        eventually(lambda: len(member.acknowledged()) == PARTITIONS, "everything is committed")
        epoch = member.generation
        _set_level(broker, 0)
        error = member.wait_for("error", code="_FATAL")
        assert "API version not supported" in error["text"]
        assert error_of_join(broker.bootstrap, name) is ErrorCode.UNSUPPORTED_VERSION
        assert error_of_description(broker.bootstrap, name) is ErrorCode.UNSUPPORTED_VERSION
        eventually(lambda: _listed_state(broker, name) == "EMPTY", "the member is removed")
        assert view.offsets() == {(name, each): 10 for each in range(PARTITIONS)}
        broker.kill()
        broker.start()
        assert error_of_join(broker.bootstrap, name) is ErrorCode.UNSUPPORTED_VERSION
        _set_level(broker, 1)
        again = groups.consumer()
        wait_assigned([again], name, PARTITIONS)
        # One for the departure and one for the join.
        assert again.generation == epoch + 2
        assert not set(again.records()) & stored
    finally:
        groups.members.close()


def _set_level(broker: BrokerProcess, level: int) -> None:
    kind = kafka.admin.UpdateFeatureType
    change = kind.UPGRADE if level else kind.SAFE_DOWNGRADE
    admin = kafka.admin.KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    try:
        admin.update_features({"group.version": (change, level)})
    finally:
        admin.close()


def _listed_state(broker: BrokerProcess, group: str) -> str:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    (listed,) = admin.list_consumer_groups().result(LIMIT_S).valid
    assert (listed.group_id, listed.type) == (group, ConsumerGroupType.CONSUMER)
    return str(listed.state.name)


def test_protocol_that_is_not_served(start_broker: Callable[..., BrokerProcess], name: str) -> None:
    """Without `consumer` among the protocols the API is announced, and refused."""
    broker = start_broker({"group.coordinator.rebalance.protocols": "classic"})
    assert broker.serves(ApiKey.CONSUMER_GROUP_HEARTBEAT)
    assert error_of_join(broker.bootstrap, name) is ErrorCode.UNSUPPORTED_VERSION
    groups = ConsumerGroups(broker, name)
    try:
        error = groups.consumer().wait_for("error", code="_FATAL")
    finally:
        groups.members.close()
    assert "API version not supported" in error["text"]


@pytest.mark.parametrize(
    ("release", "error"), [("3.9", ErrorCode.UNSUPPORTED_VERSION), ("4.0", ErrorCode.NONE)]
)
def test_release_of_kafka(
    start_broker: Callable[..., BrokerProcess],
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    release: str,
    error: ErrorCode,
) -> None:
    """Kafka 3.9 has the API, and the protocol is off; in 4.0 it is on."""
    monkeypatch.setenv("COTERIE_KAFKA_VERSION", release)
    broker = start_broker()
    assert error_of_join(broker.bootstrap, name, version=0) is error
