"""What a test does to topics, in the broker's thread; see `Broker.topic` and `Broker.produce`."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.create_topics import (
    CreateTopicsRequestAssignment,
    CreateTopicsRequestConfig,
    CreateTopicsRequestTopic,
)
from coterie.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from coterie.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsRequestTopic,
    DeleteTopicsResponse,
)
from coterie.protocol.messages.incremental_alter_configs import (
    SET,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsRequestResource,
    IncrementalAlterConfigsResponse,
)
from coterie.protocol.messages.produce import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
    ProduceResponse,
)
from coterie.protocol.records import Record, encode_records
from coterie.server.broker import Broker
from coterie.server.config.keys import GROUP_RESOURCE
from coterie.server.metadata.placing import Replicas
from coterie.server.metadata.topic_rules import TopicRefused, check_new_topic
from coterie.testing.errors import WrongUse
from coterie.testing.loopback import ask
from coterie.testing.records import no_topic, opened_log

_TIMEOUT_MS = 30_000
_PAUSE_S = 0.001


async def create_topic(
    server: Broker,
    name: str,
    partitions: int,
    config: Mapping[str, str],
    replicas: Replicas = 1,
) -> None:
    """Create a topic, whose partitions have so many replicas or these.

    Raises:
        WrongUse: it cannot be created; the text is Kafka's.
    """
    while not server.changes.idle:  # noqa: ASYNC110 - a client makes a topic; nothing signals its end
        await asyncio.sleep(_PAUSE_S)
    asked = CreateTopicsRequestTopic(
        name=name,
        num_partitions=partitions if isinstance(replicas, int) else -1,
        replication_factor=replicas if isinstance(replicas, int) else -1,
        assignments=[]
        if isinstance(replicas, int)
        else [
            CreateTopicsRequestAssignment(partition_index=index, broker_ids=list(each))
            for index, each in enumerate(replicas)
        ],
        configs=[CreateTopicsRequestConfig(name=key, value=value) for key, value in config.items()],
    )
    try:
        server.topics.check_name(name)
        count = check_new_topic(asked, server.image.nodes)
        server.controller.create(name, count, config, replicas)
    except TopicRefused as refused:
        text = _refusal(f"topic '{name}'", refused.error, refused.text)
        if refused.error is ErrorCode.TOPIC_ALREADY_EXISTS:
            text += f"\nread it with records('{name}'), append to it with produce('{name}', ...)"
        raise WrongUse(text) from None


async def delete_topic(server: Broker, name: str) -> None:
    """Delete a topic.

    Raises:
        WrongUse: it cannot be deleted.
    """
    request = DeleteTopicsRequest(
        topics=[DeleteTopicsRequestTopic(name=name)], timeout_ms=_TIMEOUT_MS
    )
    (result,) = (await ask(server, request, DeleteTopicsResponse)).responses
    if result.error_code:
        error = ErrorCode(result.error_code)
        raise WrongUse(_refusal(f"the deletion of topic '{name}'", error, result.error_message))


async def delete_group(server: Broker, group_id: str) -> None:
    """Delete a group with its offsets.

    Raises:
        WrongUse: it has members, or does not exist.
    """
    request = DeleteGroupsRequest(groups_names=[group_id])
    (result,) = (await ask(server, request, DeleteGroupsResponse)).results
    if result.error_code:
        error = ErrorCode(result.error_code)
        raise WrongUse(_refusal(f"the deletion of group '{group_id}'", error, None))


async def alter_group(server: Broker, group_id: str, settings: Mapping[str, str]) -> None:
    """Set settings of a group; others stay.

    Raises:
        WrongUse: they cannot be set; the text is Kafka's.
    """
    configs = [
        IncrementalAlterConfigsRequestConfig(name=name, config_operation=SET, value=value)
        for name, value in settings.items()
    ]
    resource = IncrementalAlterConfigsRequestResource(
        resource_type=GROUP_RESOURCE, resource_name=group_id, configs=configs
    )
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    (result,) = (await ask(server, request, IncrementalAlterConfigsResponse)).responses
    if result.error_code:
        error = ErrorCode(result.error_code)
        raise WrongUse(_refusal(f"a setting of group '{group_id}'", error, result.error_message))


async def produce(
    server: Broker,
    topic: str,
    partition: int,
    values: Sequence[Any],
    key: Any,
    headers: Sequence[tuple[str, bytes]],
    timestamp_ms: int | None,
) -> int:
    """Append records to a partition; return the offset of the first.

    Raises:
        WrongUse: they cannot be appended.
    """
    found = server.topics.find(topic)
    if found is None:
        raise WrongUse(f"{no_topic(server, topic)}\ncreate it with topic('{topic}')")
    one = found.partition(partition)
    if one is not None:
        # A request for an open log is answered at once.
        await opened_log(server, one)
    at_ms = server.now_ms() if timestamp_ms is None else timestamp_ms
    records = [
        Record(offset, at_ms, _bytes(key), _bytes(value), tuple(headers))
        for offset, value in enumerate(values)
    ]
    partitions = [ProduceRequestPartition(index=partition, records=encode_records(records))]
    listed = ProduceRequestTopic(name=topic, topic_id=found.topic_id, partition_data=partitions)
    request = ProduceRequest(acks=-1, timeout_ms=_TIMEOUT_MS, topic_data=[listed])
    response = await ask(server, request, ProduceResponse)
    answer = response.responses[0].partition_responses[0]
    if answer.error_code:
        subject = f"a record for {topic}-{partition}"
        raise WrongUse(_refusal(subject, ErrorCode(answer.error_code), answer.error_message))
    return answer.base_offset


def _refusal(subject: str, error: ErrorCode, text: str | None) -> str:
    return f"{subject} is refused: {error.name}{f': {text}' if text else ''}"


def _bytes(value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    raise WrongUse(f"a key or value is bytes, text or None, not {type(value).__name__}: {value!r}")
