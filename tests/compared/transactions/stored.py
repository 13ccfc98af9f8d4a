"""What a conversation has left in the logs of a broker, as values that compare.

The partitions are read with Fetch: those of the topics batch by batch, those of the internal topics
by the records of the conversation.
"""

from collections.abc import Iterator
from typing import Any

from coterie.protocol.java_hash import partition_for
from coterie.protocol.messages.fetch import FetchRequest, FetchRequestPartition, FetchRequestTopic
from coterie.protocol.messages.log_records import GROUP_RECORDS
from coterie.protocol.messages.record_types import RecordTypes
from coterie.protocol.messages.transaction_records import TRANSACTION_RECORDS
from coterie.protocol.record_batch import read_header
from coterie.protocol.records import decode_records
from coterie.protocol.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from coterie.protocol.wire import Message
from tests.compared.transactions.conversation import Conversation
from tests.compared.transactions.plain_values import batches, plain, plain_batch
from tests.compared.transactions.side import Side

# Both topics have as many.
INTERNAL_PARTITIONS = 50
_LIMIT_BYTES = 1 << 24


def stored(side: Side, conversation: Conversation) -> Iterator[tuple[str, Any]]:
    """Return what is stored, with the name of each partition."""
    for topic, number in conversation.partitions:
        found = [plain_batch(each, side) for each in read(side, topic, number)]
        yield f"log of {topic}-{number}", found
    names = {TRANSACTIONS_TOPIC: conversation.ids, OFFSETS_TOPIC: conversation.groups}
    types = {TRANSACTIONS_TOPIC: TRANSACTION_RECORDS, OFFSETS_TOPIC: GROUP_RECORDS}
    for topic, keys in names.items():
        for number in sorted({partition_for(each, INTERNAL_PARTITIONS) for each in keys}):
            found = []
            for batch in read(side, topic, number):
                # The order of tombstones is that of a hash in Kafka.
                found += sorted(_records(side, batch, types[topic], conversation.name), key=_order)
            yield f"records of {topic}-{number}", found


def _order(record: dict[str, Any]) -> str:
    return str(record["key"]) if record.get("version", "") is None else ""


def read(side: Side, topic: str, number: int) -> Iterator[bytes]:
    """Return the batches of a partition, as they are stored."""
    listed = side.list_offsets({topic: [number]}, -2)
    offset = listed[0].offset
    while True:
        asked = FetchRequestPartition(
            partition=number, fetch_offset=offset, partition_max_bytes=_LIMIT_BYTES
        )
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=_LIMIT_BYTES,
            topics=[FetchRequestTopic(topic=topic, partitions=[asked])],
        )
        answer = side.call(request, 11).responses[0].partitions[0]
        assert not answer.error_code, answer
        for batch in batches(answer.records or b""):
            header = read_header(batch, 0)
            offset = header.base_offset + header.last_offset_delta + 1
            yield batch
        if offset >= answer.high_watermark:
            return


def _records(side: Side, batch: bytes, types: RecordTypes, name: str) -> Iterator[dict[str, Any]]:
    """Return the records of a conversation in a batch of a coordinator, and its markers."""
    header = read_header(batch, 0)
    if header.is_control:
        if header.producer_id in side.producer_names:
            fields = plain_batch(batch, side)
            yield {**fields, "base_offset": "", "leader_epoch": ""}
        return
    for record in decode_records(batch, header, 0):
        assert record.key is not None, "every record has a key"
        key = types.decode_key(record.key)
        assert isinstance(key, Message), key
        plain_key = plain(key, side)
        if not any(str(each).startswith(name) for each in plain_key.values()):
            continue
        value = record.value
        yield {
            "attributes": header.attributes,
            "producer": (side.producer_name(header.producer_id), header.producer_epoch),
            "base_sequence": header.base_sequence,
            "key": (record.key[:2], plain_key),
            # Equal fields in equal versions of equal length are equal bytes.
            "version": None if value is None else value[:2],
            "length": None if value is None else len(value),
            "value": plain(types.decode_value(key, value), side),
        }
