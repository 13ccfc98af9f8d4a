"""Arrays that are encoded in parts: the bytes are those of the ordinary encoder."""

from typing import Any, cast

import pytest

from coterie.protocol.messages.list_groups import ListGroupsResponse, ListGroupsResponseGroup
from coterie.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from coterie.protocol.spliced import (
    EncodedArray,
    elements_encoder,
    splicing_encoder,
    splicing_framer,
    stepping_framer,
)
from coterie.server.network.sliced_response import run_now

CORRELATION_ID = 7


def topic(number: int) -> MetadataResponseTopic:
    partitions = [
        MetadataResponsePartition(
            error_code=0,
            partition_index=index,
            leader_id=1,
            leader_epoch=3,
            replica_nodes=[1],
            isr_nodes=[1],
        )
        for index in range(number)
    ]
    return MetadataResponseTopic(
        error_code=0, name=f"topic-{number}", topic_id=bytes(16), partitions=partitions
    )


@pytest.mark.parametrize("count", [0, 1, 127, 300])
@pytest.mark.parametrize("version", range(14))
def test_spliced_metadata(version: int, count: int) -> None:
    response = MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=1, host="h", port=1)],
        cluster_id="c",
        topics=[topic(number % 140) for number in range(count)],
    )
    expected = MetadataResponse.framer(version)(response, CORRELATION_ID)
    encode_partitions = elements_encoder(
        MetadataResponse, version, MetadataResponseTopic, "partitions"
    )
    encode_topic = splicing_encoder(MetadataResponse, version, MetadataResponseTopic, "partitions")
    topics = EncodedArray()
    for each in response.topics:
        partitions = EncodedArray()
        half = len(each.partitions) // 2
        for part in (each.partitions[:half], each.partitions[half:]):
            partitions.add(encode_partitions(part), len(part))
        each.partitions = cast("Any", partitions)
        topics.add(encode_topic(each))
    response.topics = cast("Any", topics)
    assert (
        splicing_framer(MetadataResponse, version, "topics")(response, CORRELATION_ID) == expected
    )
    steps = stepping_framer(MetadataResponse, version, "topics")(response, CORRELATION_ID)
    assert run_now(steps) == expected


@pytest.mark.parametrize("version", range(6))
def test_spliced_list_of_groups(version: int) -> None:
    groups = [
        ListGroupsResponseGroup(
            group_id=f"g{number}",
            protocol_type="consumer",
            group_state="Empty",
            group_type="classic",
        )
        for number in range(200)
    ]
    response = ListGroupsResponse(error_code=0, groups=groups)
    expected = ListGroupsResponse.framer(version)(response, CORRELATION_ID)
    encode = elements_encoder(ListGroupsResponse, version, ListGroupsResponse, "groups")
    encoded = EncodedArray()
    encoded.add(encode(groups[:150]), 150)
    encoded.add(encode(groups[150:]), 50)
    response.groups = cast("Any", encoded)
    framer = splicing_framer(ListGroupsResponse, version, "groups")
    assert framer(response, CORRELATION_ID) == expected
    steps = stepping_framer(ListGroupsResponse, version, "groups")(response, CORRELATION_ID)
    assert run_now(steps) == expected


def test_large_response_has_short_steps() -> None:
    """The elements of a response are encoded some at a time, and its bytes copied so."""
    groups = [
        ListGroupsResponseGroup(group_id="g" * 200, protocol_type="consumer", group_state="Empty")
        for _ in range(20_000)
    ]
    response = ListGroupsResponse(error_code=0, groups=groups)
    steps = sum(1 for _ in stepping_framer(ListGroupsResponse, 4)(response, CORRELATION_ID))
    assert steps > 100
