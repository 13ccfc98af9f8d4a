"""Running a command of `coterie` in this process, against a scripted broker."""

import json
from typing import Any

from click.testing import CliRunner, Result

from coterie.cli.main import main
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    TopicPartition,
    encode_assignment,
)
from coterie.protocol.messages.describe_groups import (
    DescribeGroupsResponse,
    DescribeGroupsResponseGroup,
    DescribeGroupsResponseMember,
)
from coterie.protocol.messages.list_offsets import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsResponsePartition,
    ListOffsetsResponseTopic,
)
from coterie.protocol.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from tests.unit.client.fake_broker import FakeBroker

# Every partition of the scripted broker holds offsets 10 to 19, written at times 10 to 19.
BEGIN, END = 10, 20
FIRST_VERSION_WITH_GROUPS = 8


def run(broker: FakeBroker | None, *arguments: str, stdin: str | bytes | None = None) -> Result:
    """Run `coterie ARGUMENTS` with the broker's address in the environment."""
    environment = {"COTERIE_BOOTSTRAP": broker.bootstrap} if broker else {}
    # An exception that click does not handle would print a traceback for the user; let it fail the
    # test.
    return CliRunner().invoke(
        main, arguments, input=stdin, env=environment, catch_exceptions=False, prog_name="coterie"
    )


def rows_of(result: Result) -> Any:
    """Return what --json printed."""
    return json.loads(result.stdout)


def cells_of(result: Result) -> list[list[str]]:
    """Return the words of each line of a table."""
    return [line.split() for line in result.stdout.splitlines()]


def member(
    name: str, instance: str | None = None, **topics: list[int]
) -> DescribeGroupsResponseMember:
    """Return a consumer with an assignment."""
    assignment = ConsumerProtocolAssignment(
        assigned_partitions=[
            TopicPartition(topic=topic, partitions=partitions)
            for topic, partitions in topics.items()
        ]
    )
    return DescribeGroupsResponseMember(
        member_id=f"{name}-id",
        group_instance_id=instance,
        client_id=name,
        client_host="/10.0.0.1",
        member_metadata=b"",
        member_assignment=encode_assignment(assignment),
    )


def described(*groups: DescribeGroupsResponseGroup) -> Any:
    """Respond to DescribeGroups as Kafka 4 does; groups that are not given do not exist."""
    known = {group.group_id: group for group in groups}

    def respond(request: Any, _: int) -> DescribeGroupsResponse:
        return DescribeGroupsResponse(groups=[known.get(n) or no_group(n) for n in request.groups])

    return respond


def group(
    name: str,
    state: str = "Stable",
    *members: DescribeGroupsResponseMember,
    protocol: str = "range",
) -> DescribeGroupsResponseGroup:
    return DescribeGroupsResponseGroup(
        error_code=0,
        group_id=name,
        group_state=state,
        protocol_type="consumer",
        protocol_data=protocol if state == "Stable" else "",
        members=list(members),
    )


def no_group(name: str) -> DescribeGroupsResponseGroup:
    return DescribeGroupsResponseGroup(
        error_code=ErrorCode.GROUP_ID_NOT_FOUND,
        error_message=f"Group {name} not found.",
        group_id=name,
        group_state="Dead",
        protocol_type="",
        protocol_data="",
        members=[],
    )


def committed(**topics: dict[int, int]) -> Any:
    """Respond to OffsetFetch with these offsets for any group: committed(t={partition: offset})."""
    response = [
        OffsetFetchResponseTopic(
            name=topic,
            partitions=[
                OffsetFetchResponsePartition(
                    partition_index=index, committed_offset=offset, metadata="", error_code=0
                )
                for index, offset in offsets.items()
            ],
        )
        for topic, offsets in topics.items()
    ]

    def respond(request: Any, version: int) -> OffsetFetchResponse:
        if version < FIRST_VERSION_WITH_GROUPS:
            return OffsetFetchResponse(topics=response)
        return OffsetFetchResponse(
            groups=[
                OffsetFetchResponseGroup(group_id=each.group_id, topics=response, error_code=0)
                for each in request.groups
            ]
        )

    return respond


def listed_offsets(request: ListOffsetsRequest, _: int) -> ListOffsetsResponse:
    """Respond to ListOffsets for partitions that hold BEGIN to END."""

    def offset(timestamp: int) -> int:
        if timestamp in (EARLIEST_TIMESTAMP, LATEST_TIMESTAMP):
            return BEGIN if timestamp == EARLIEST_TIMESTAMP else END
        return max(timestamp, BEGIN) if timestamp < END else -1

    return ListOffsetsResponse(
        topics=[
            ListOffsetsResponseTopic(
                name=topic.name,
                partitions=[
                    ListOffsetsResponsePartition(
                        partition_index=part.partition_index,
                        error_code=0,
                        offset=offset(part.timestamp),
                    )
                    for part in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
