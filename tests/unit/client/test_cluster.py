"""Finding the right broker, and retries while the cluster changes."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from coterie.client import connection
from coterie.client.cluster import Cluster
from coterie.client.errors import BrokerUnreachable, Refused
from coterie.client.groups import delete_groups, describe_groups, list_groups
from coterie.client.offsets import LATEST, commit_offsets, committed_offsets, partition_offsets
from coterie.processes import free_port
from coterie.protocol.api_keys import SERVED_VERSIONS, ApiKey
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.delete_groups import DeleteGroupsResponse, DeleteGroupsResponseResult
from coterie.protocol.messages.describe_groups import (
    DescribeGroupsResponse,
    DescribeGroupsResponseGroup,
)
from coterie.protocol.messages.list_groups import ListGroupsResponse, ListGroupsResponseGroup
from coterie.protocol.messages.list_offsets import (
    ListOffsetsResponse,
    ListOffsetsResponsePartition,
    ListOffsetsResponseTopic,
)
from coterie.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
)
from coterie.protocol.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from coterie.protocol.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from coterie.protocol.wire import Message
from tests.unit.client.fake_broker import NODE_ID, FakeBroker, coordinators, in_turn, partition


@contextmanager
def cluster_of(broker: FakeBroker, timeout_s: float = 60.0) -> Iterator[Cluster]:
    with broker, Cluster(broker.bootstrap, timeout_s) as cluster:
        yield cluster


def deleted(*errors: int) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        results=[DeleteGroupsResponseResult(group_id="g", error_code=error) for error in errors]
    )


def offsets(error: int, offset: int = 7) -> ListOffsetsResponse:
    part = ListOffsetsResponsePartition(partition_index=0, error_code=error, offset=offset)
    return ListOffsetsResponse(topics=[ListOffsetsResponseTopic(name="t", partitions=[part])])


def committed(error: int, offset: int = 7) -> OffsetCommitResponse:
    part = OffsetCommitResponsePartition(partition_index=0, error_code=error)
    return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="t", partitions=[part])])


def test_next_bootstrap_address_is_tried() -> None:
    with FakeBroker({ApiKey.LIST_GROUPS: ListGroupsResponse(error_code=0, groups=[])}) as broker:
        bootstrap = f"127.0.0.1:{free_port()}, {broker.bootstrap}"
        with Cluster(bootstrap, 60) as cluster:
            assert list_groups(cluster) == []


def test_unreachable_bootstrap_addresses_are_all_named() -> None:
    one, two = free_port(), free_port()
    with (
        Cluster(f"127.0.0.1:{one},127.0.0.1:{two}", 60) as cluster,
        pytest.raises(BrokerUnreachable) as caught,
    ):
        list_groups(cluster)
    assert f":{one}: connection refused" in caught.value.cause
    assert f":{two}: connection refused" in caught.value.cause
    assert "--bootstrap-server" in caught.value.remedy


def test_unreachable_advertised_address_is_reported_as_such() -> None:
    """The most common problem with a broker in a container: it advertises another address."""
    elsewhere = MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=4, host="127.0.0.1", port=free_port())],
        topics=[],
    )
    with (
        cluster_of(FakeBroker({ApiKey.METADATA: elsewhere})) as cluster,
        pytest.raises(BrokerUnreachable, match="the address that broker 4 advertises") as caught,
    ):
        list_groups(cluster)
    assert "advertised.listeners" in caught.value.remedy


@pytest.mark.parametrize("first", [14, 15, 16])
def test_request_is_retried_while_the_coordinator_moves(first: int) -> None:
    broker = FakeBroker({ApiKey.DELETE_GROUPS: in_turn(deleted(first), deleted(first), deleted(0))})
    with cluster_of(broker) as cluster:
        (result,) = delete_groups(cluster, ["g"])
    assert result.error == 0
    assert len(broker.seen(ApiKey.DELETE_GROUPS)) == 3
    assert len(broker.seen(ApiKey.FIND_COORDINATOR)) == 3


def test_missing_coordinator_is_waited_for() -> None:
    def not_yet(request: object, version: int) -> object:
        return coordinators(request, version, "", -1, ErrorCode.COORDINATOR_NOT_AVAILABLE)

    broker = FakeBroker({ApiKey.DELETE_GROUPS: deleted(0)})
    broker.responses[ApiKey.FIND_COORDINATOR] = in_turn(
        not_yet, not_yet, broker.responses[ApiKey.FIND_COORDINATOR]
    )
    with cluster_of(broker) as cluster:
        assert delete_groups(cluster, ["g"])[0].error == 0


def test_coordinator_that_is_loading_at_the_timeout_is_an_error_with_a_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_s = 0.0

    def loading(_request: Message, _version: int) -> Message:
        nonlocal now_s
        now_s += 20
        return deleted(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    # Time passes with the responses only, so that as many requests fit on every machine.
    monkeypatch.setattr(connection, "time", SimpleNamespace(monotonic=lambda: now_s))
    broker = FakeBroker({ApiKey.DELETE_GROUPS: loading})
    with (
        cluster_of(broker, timeout_s=50) as cluster,
        pytest.raises(Refused, match="Group 'g': COORDINATOR_LOAD_IN_PROGRESS") as caught,
    ):
        delete_groups(cluster, ["g"])
    assert caught.value.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert "--timeout" in caught.value.remedy
    assert len(broker.seen(ApiKey.DELETE_GROUPS)) == 3


def test_other_errors_are_not_retried() -> None:
    broker = FakeBroker({ApiKey.DELETE_GROUPS: deleted(ErrorCode.NON_EMPTY_GROUP)})
    with cluster_of(broker) as cluster:
        assert delete_groups(cluster, ["g"])[0].error == ErrorCode.NON_EMPTY_GROUP
    assert len(broker.seen(ApiKey.DELETE_GROUPS)) == 1


def test_refused_find_coordinator_is_not_retried() -> None:
    def forbidden(request: object, version: int) -> object:
        return coordinators(request, version, "", -1, ErrorCode.GROUP_AUTHORIZATION_FAILED)

    broker = FakeBroker({ApiKey.FIND_COORDINATOR: forbidden})
    with cluster_of(broker) as cluster, pytest.raises(Refused, match="GROUP_AUTHORIZATION_FAILED"):
        delete_groups(cluster, ["g"])
    assert len(broker.seen(ApiKey.FIND_COORDINATOR)) == 1


def test_old_brokers_get_one_group_per_find_coordinator() -> None:
    def all_deleted(request: object, version: int) -> DeleteGroupsResponse:
        return DeleteGroupsResponse(
            results=[
                DeleteGroupsResponseResult(group_id=name, error_code=0)
                for name in request.groups_names  # type: ignore[attr-defined]
            ]
        )

    ranges = {**SERVED_VERSIONS, ApiKey.FIND_COORDINATOR: (0, 2)}
    broker = FakeBroker({ApiKey.DELETE_GROUPS: all_deleted}, ranges)
    with cluster_of(broker) as cluster:
        assert [r.group_id for r in delete_groups(cluster, ["b", "a", "b"])] == ["b", "a"]
    assert [request.key for request in broker.seen(ApiKey.FIND_COORDINATOR)] == ["b", "a"]
    assert broker.seen(ApiKey.DELETE_GROUPS)[0].groups_names == ["b", "a"]


def test_group_missing_in_the_response_is_an_error() -> None:
    broker = FakeBroker({ApiKey.DELETE_GROUPS: deleted()})
    with (
        cluster_of(broker) as cluster,
        pytest.raises(Exception, match="lacks Group 'g'"),
    ):
        delete_groups(cluster, ["g"])


def test_commit_is_retried_while_the_coordinator_loads() -> None:
    broker = FakeBroker({ApiKey.OFFSET_COMMIT: in_turn(committed(14), committed(0))})
    with cluster_of(broker) as cluster:
        assert commit_offsets(cluster, "g", {("t", 0): 3}) == {("t", 0): 0}
    first = broker.seen(ApiKey.OFFSET_COMMIT)[0]
    assert (first.generation_id_or_member_epoch, first.member_id) == (-1, "")
    # Version 10 has topic ids instead of names.
    assert broker.versions(ApiKey.OFFSET_COMMIT) == [9, 9]


def test_request_is_retried_between_two_leaders() -> None:
    responses = in_turn(offsets(ErrorCode.NOT_LEADER_OR_FOLLOWER), offsets(0))
    broker = FakeBroker({ApiKey.LIST_OFFSETS: responses}, topics={"t": 1})
    with cluster_of(broker) as cluster:
        assert partition_offsets(cluster, {("t", 0): LATEST}) == {("t", 0): 7}
    assert len(broker.seen(ApiKey.METADATA)) == 2


def test_unknown_partition_is_an_error_or_missing() -> None:
    broker = FakeBroker({ApiKey.LIST_OFFSETS: offsets(0)}, topics={"t": 1})
    wanted = {("t", 0): LATEST, ("t", 5): LATEST, ("deleted", 0): LATEST}
    missing: dict[tuple[str, int], int] = {}
    with cluster_of(broker) as cluster:
        with pytest.raises(Refused, match=r"Partition (t-5|deleted-0): UNKNOWN_TOPIC_OR_PARTITION"):
            partition_offsets(cluster, wanted)
        assert partition_offsets(cluster, wanted, missing) == {("t", 0): 7}
    assert missing == {("t", 5): 3, ("deleted", 0): 3}


def test_partition_without_a_leader_is_missing_after_few_retries() -> None:
    leaderless = MetadataResponseTopic(error_code=0, name="t", partitions=[partition(0, leader=-1)])
    broker = FakeBroker(topics={"t": 1})
    broker.responses[ApiKey.METADATA] = MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=NODE_ID, host=broker.host, port=broker.port)],
        topics=[leaderless],
    )
    missing: dict[tuple[str, int], int] = {}
    with cluster_of(broker, timeout_s=60) as cluster:
        assert partition_offsets(cluster, {("t", 0): LATEST}, missing) == {}
    assert missing == {("t", 0): ErrorCode.LEADER_NOT_AVAILABLE}
    assert 1 < len(broker.seen(ApiKey.METADATA)) < 10


@pytest.mark.parametrize(("highest", "used"), [(10, 9), (7, 7), (2, 2)])
def test_offsets_are_read_from_every_form_of_the_response(highest: int, used: int) -> None:
    part = OffsetFetchResponsePartition(
        partition_index=1, committed_offset=5, metadata="m", error_code=0
    )
    absent = OffsetFetchResponsePartition(
        partition_index=2, committed_offset=-1, metadata="", error_code=0
    )
    topics = [OffsetFetchResponseTopic(name="t", partitions=[part, absent])]
    response = OffsetFetchResponse(
        topics=topics,
        groups=[OffsetFetchResponseGroup(group_id="g", topics=topics, error_code=0)],
    )
    ranges = {**SERVED_VERSIONS, ApiKey.OFFSET_FETCH: (1, highest)}
    broker = FakeBroker({ApiKey.OFFSET_FETCH: response}, ranges)
    with cluster_of(broker) as cluster:
        found = committed_offsets(cluster, "g")
    assert list(found) == [("t", 1)]
    assert (found["t", 1].offset, found["t", 1].metadata) == (5, "m")
    assert broker.versions(ApiKey.OFFSET_FETCH) == [used]


def test_states_are_described_if_the_list_lacks_them() -> None:
    """ListGroups has no states before version 4 (Kafka 2.6)."""

    def described(request: object, version: int) -> DescribeGroupsResponse:
        states = {"a": "Stable", "b": "Empty"}
        return DescribeGroupsResponse(
            groups=[
                DescribeGroupsResponseGroup(
                    error_code=0,
                    group_id=name,
                    group_state=states[name],
                    protocol_type="consumer",
                    protocol_data="",
                    members=[],
                )
                for name in request.groups  # type: ignore[attr-defined]
            ]
        )

    listed = ListGroupsResponse(
        error_code=0,
        groups=[ListGroupsResponseGroup(group_id=n, protocol_type="consumer") for n in "ba"],
    )
    ranges = {
        **SERVED_VERSIONS,
        ApiKey.LIST_GROUPS: (0, 3),
        ApiKey.DESCRIBE_GROUPS: (0, 4),
    }
    responses = {ApiKey.LIST_GROUPS: listed, ApiKey.DESCRIBE_GROUPS: described}
    broker = FakeBroker(responses, ranges)
    with cluster_of(broker) as cluster:
        assert [group.group_id for group in list_groups(cluster)] == ["a", "b"]
        assert [group.group_id for group in list_groups(cluster, states=["EMPTY"])] == ["b"]
        assert list_groups(cluster, types=["consumer"]) == []
        assert describe_groups(cluster, ["a"])["a"].state == "Stable"


def test_incomplete_list_is_an_error() -> None:
    loading = ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, groups=[])
    broker = FakeBroker({ApiKey.LIST_GROUPS: loading})
    with (
        cluster_of(broker) as cluster,
        pytest.raises(Refused, match="COORDINATOR_LOAD_IN_PROGRESS"),
    ):
        list_groups(cluster)
