"""The columns of one offset commit."""

from typing import Any

from coterie.pipeline.records import timestamp_us, topic_id_text
from coterie.protocol.messages.log_records import OffsetCommitKey, decode_key, decode_value

KEY_TYPES = (0, 1)


def commit_fields(key: bytes, value: bytes | None) -> dict[str, Any]:
    """Return the columns of one offset commit that come from its key and value.

    Raises:
        MalformedFrame: the key or the value does not match its type and version.
    """
    decoded = decode_key(key)
    assert isinstance(decoded, OffsetCommitKey), "selected by its record type"
    row: dict[str, Any] = {
        "group_id": decoded.group,
        "topic": decoded.topic,
        "partition": decoded.partition,
        "key_type": int.from_bytes(key[:2], signed=True),
        "is_tombstone": value is None,
    }
    commit = decode_value(decoded, value)
    if commit is not None:
        assert value is not None, "only a tombstone has no value"
        row |= {
            "topic_id": topic_id_text(commit.topic_id),
            "committed_offset": commit.offset,
            "leader_epoch": None if commit.leader_epoch < 0 else commit.leader_epoch,
            "metadata": commit.metadata,
            "commit_ts": timestamp_us(commit.commit_timestamp),
            "expire_ts": timestamp_us(commit.expire_timestamp),
            "value_version": int.from_bytes(value[:2], signed=True),
        }
    return row
