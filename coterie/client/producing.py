"""Appending one record to a partition with Produce."""

import json
from collections.abc import Sequence

from coterie.client.cluster import Cluster, TopicPartition
from coterie.client.errors import Refused
from coterie.client.times import now_ms
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.produce import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
    ProduceResponse,
    ProduceResponsePartition,
)
from coterie.protocol.records import Record, encode_records

_ALL_REPLICAS = -1
# How a person writes a key or a value.
FORMATS = ("text", "json", "hex", "null")


def content_of(text: str, form: str) -> bytes | None:
    """Return a key or a value as bytes.

    Args:
        text: as a person writes it.
        form: one of `FORMATS`.

    Raises:
        ValueError: it is not of its format.
    """
    try:
        match form:
            case "null":
                return None
            case "hex":
                return bytes.fromhex(text)
            case "json":
                json.loads(text)
    except ValueError as error:
        raise ValueError(f"no {form}: {error}") from None
    return text.encode()


def produce_record(
    cluster: Cluster,
    partition: TopicPartition,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[tuple[str, bytes | None]] = (),
) -> int:
    """Append a record, once all replicas in sync have it, and return its offset.

    Its timestamp is the time of this machine. Without an idempotent producer a record is appended
    twice if an answer is lost between two leaders, so it is sent again only to a leader that has
    refused it.

    Raises:
        Refused: the partition does not exist, or its leader refuses the record.
    """
    topic, index = partition
    topic_ids = {each.name: each.topic_id for each in cluster.metadata([topic]).topics}
    record = Record(0, now_ms(), key, value, tuple(headers))
    part = ProduceRequestPartition(index=index, records=encode_records([record]))

    def request_for(_: list[TopicPartition]) -> ProduceRequest:
        named = ProduceRequestTopic(name=topic, topic_id=topic_ids[topic], partition_data=[part])
        return ProduceRequest(
            acks=_ALL_REPLICAS, timeout_ms=int(cluster.timeout_s * 1000), topic_data=[named]
        )

    def results(
        response: ProduceResponse,
    ) -> dict[TopicPartition, tuple[int, ProduceResponsePartition]]:
        (named,) = response.responses
        (only,) = named.partition_responses
        return {partition: (only.error_code, only)}

    found = cluster.call_leaders([partition], request_for, ProduceResponse, results)[partition]
    if found.error_code != ErrorCode.NONE:
        raise Refused(found.error_code, f"A record for {topic}-{index}", found.error_message)
    return found.base_offset
