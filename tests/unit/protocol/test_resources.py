"""What requests touch: the declarations, and the names that are found by them.

Rules: [security/resources].
"""

from typing import Any

import pytest

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.apis import request_class, response_class
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnRequestTopic,
)
from coterie.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsRequestTopic
from coterie.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsRequestResource,
)
from coterie.protocol.messages.find_coordinator import FindCoordinatorRequest
from coterie.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)
from coterie.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from coterie.protocol.refusals import refusal
from coterie.protocol.resources import ResourceType, groups_of, names_of, resources
from coterie.protocol.schema import fields_of
from tests.unit.coordinator.streams.harness import subtopology, topology

TOPIC_ID = bytes(range(16))


def follow(cls: Any, path: tuple[str, ...]) -> Any:
    """Return the class of the structures to which lists and structures lead."""
    for name in path:
        (field,) = [each for each in fields_of(cls) if each.name == name]
        cls = (field.type.element or field.type).struct
        assert cls is not None
    return cls


@pytest.mark.parametrize("api", resources(), ids=lambda api: api.kafka_name)
def test_paths_lead_to_declared_names_and_errors(api: ApiKey) -> None:
    for touched in resources()[api]:
        for names in touched.names:
            holder = follow(request_class(api), names.path[:-1])
            assert names.path[-1] in holder.fields_
            assert not names.field or names.field in holder.fields_ or len(names.path) == 1
        for place in touched.places:
            fields = follow(response_class(api), place).fields_
            assert any(name.endswith("error_code") for name in fields)


@pytest.mark.parametrize(
    ("request_", "kind", "names"),
    [
        (FindCoordinatorRequest(key="g"), ResourceType.GROUP, ["g"]),
        (FindCoordinatorRequest(key="x", key_type=1), ResourceType.GROUP, []),
        (
            FindCoordinatorRequest(coordinator_keys=["x", "y"], key_type=1),
            ResourceType.TRANSACTIONAL_ID,
            ["x", "y"],
        ),
        (
            OffsetFetchRequest(
                groups=[
                    OffsetFetchRequestGroup(
                        group_id="g",
                        topics=[
                            OffsetFetchRequestTopic(topic_id=TOPIC_ID, partition_indexes=[0]),
                            OffsetFetchRequestTopic(name="t", partition_indexes=[0]),
                        ],
                    ),
                    OffsetFetchRequestGroup(group_id="all", topics=None),
                ]
            ),
            ResourceType.TOPIC,
            [TOPIC_ID, "t"],
        ),
        (
            DescribeConfigsRequest(
                resources=[
                    DescribeConfigsRequestResource(
                        resource_type=2, resource_name="t", configuration_keys=None
                    ),
                    DescribeConfigsRequestResource(
                        resource_type=32, resource_name="g", configuration_keys=None
                    ),
                ]
            ),
            ResourceType.GROUP,
            ["g"],
        ),
        (
            StreamsGroupHeartbeatRequest(
                group_id="g",
                member_id="m",
                member_epoch=0,
                endpoint_information_epoch=-1,
                topology=topology(subtopology("0", "a"), subtopology("1", "b")),
            ),
            ResourceType.TOPIC,
            ["a", "b"],
        ),
        (
            StreamsGroupHeartbeatRequest(
                group_id="g", member_id="m", member_epoch=3, endpoint_information_epoch=0
            ),
            ResourceType.TOPIC,
            [],
        ),
    ],
)
def test_names_of_a_request(request_: Any, kind: ResourceType, names: list[str | bytes]) -> None:
    assert list(names_of(request_, kind)) == names


def test_groups_of_a_request() -> None:
    groups = [OffsetFetchRequestGroup(group_id=each, topics=None) for each in "ab"]
    assert groups_of(OffsetFetchRequest(groups=groups)) == {"a", "b"}
    topic = CreateTopicsRequestTopic(name="t", num_partitions=1, replication_factor=1)
    assert groups_of(CreateTopicsRequest(topics=[topic], timeout_ms=1)) == set()


@pytest.mark.parametrize("version", [1, 2, 8])
def test_the_error_is_where_clients_of_the_version_look_for_it(version: int) -> None:
    topic = OffsetFetchRequestTopic(name="t", partition_indexes=[3])
    request = (
        OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)])
        if version == 8
        else OffsetFetchRequest(group_id="g", topics=[topic])
    )
    refused = refusal(request, ErrorCode.NOT_COORDINATOR, version, metadata="")
    found = [
        [each.error_code for asked in refused.topics for each in asked.partitions],
        refused.error_code,
        [(each.group_id, each.error_code) for each in refused.groups],
    ]
    error = ErrorCode.NOT_COORDINATOR
    assert found == {1: [[error], 0, []], 2: [[], error, []], 8: [[], 0, [("g", error)]]}[version]


def test_elements_that_are_only_a_number_are_named_by_it() -> None:
    topic = AddPartitionsToTxnRequestTopic(name="t", partitions=[4])
    request = AddPartitionsToTxnRequest(transactional_id="x", topics=[topic])
    refused = refusal(request, ErrorCode.INVALID_TXN_STATE, 3)
    ((name, (result,)),) = [
        (each.name, each.results_by_partition) for each in refused.results_by_topic
    ]
    assert (name, result.partition_index) == ("t", 4)
    assert result.partition_error_code == ErrorCode.INVALID_TXN_STATE
    assert refused.error_code == 0
