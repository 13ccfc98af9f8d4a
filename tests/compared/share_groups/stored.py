"""What a conversation has left of share groups in the logs of a broker, as values that compare."""

from collections.abc import Iterator
from typing import Any

from coterie.coordinator.share_state.requests import ShareKey
from coterie.coordinator.share_state.service import coordinator_key
from coterie.protocol.java_hash import partition_for
from coterie.protocol.messages.share_state_records import SHARE_STATE_RECORDS
from coterie.protocol.record_batch import read_header
from coterie.protocol.records import decode_records
from coterie.protocol.topic_names import SHARE_GROUPS_TOPIC
from tests.compared.share_groups.conversation import Conversation
from tests.compared.transactions.plain_values import plain
from tests.compared.transactions.side import Side
from tests.compared.transactions.stored import INTERNAL_PARTITIONS, read


def states(side: Side, conversation: Conversation) -> Iterator[tuple[str, Any]]:
    """Return the state of each share partition, with its name."""
    for group in conversation.groups:
        for topic_id, index in conversation.seen:
            key = ShareKey(group, topic_id, index)
            number = partition_for(coordinator_key(key), INTERNAL_PARTITIONS)
            name = f"state of {group} {side.topic_names.get(topic_id)}-{index}"
            yield name, [_replayed(_records(side, number, key))]


def _records(side: Side, number: int, wanted: ShareKey) -> Iterator[tuple[str, Any]]:
    for batch in read(side, SHARE_GROUPS_TOPIC, number):
        header = read_header(batch, 0)
        for record in decode_records(batch, header, 0):
            assert record.key is not None, "every record has a key"
            key: Any = SHARE_STATE_RECORDS.decode_key(record.key)
            if (key.group_id, key.topic_id, key.partition) == tuple(wanted):
                value = SHARE_STATE_RECORDS.decode_value(key, record.value)
                yield type(key).__name__, plain(value, side)


def _replayed(records: Iterator[tuple[str, Any]]) -> dict[str, Any]:
    """Return the state that records lead to.

    Their number may differ: Kafka persists the end of each lock by itself
    [share-partitions/locks], and a snapshot follows after so many updates.
    """
    state: dict[str, Any] = {}
    offsets: dict[int, tuple[int, int]] = {}
    for name, value in records:
        if value is None:
            state, offsets = {}, {}
            continue
        if name == "ShareSnapshotKey":
            state, offsets = {}, {}
        state["delivery_complete_count"] = value["delivery_complete_count"]
        for field in ("state_epoch", "leader_epoch"):
            state[field] = value.get(field, state.get(field))
        if value["start_offset"] != -1:
            state["start_offset"] = value["start_offset"]
        for each in value["state_batches"]:
            for offset in range(each["first_offset"], each["last_offset"] + 1):
                new = (each["delivery_count"], each["delivery_state"])
                offsets[offset] = max(new, offsets.get(offset, new))
    start = state.get("start_offset", 0)
    state["offsets"] = {each: offsets[each] for each in sorted(offsets) if each >= start}
    return state
