"""What differs between Kafka and Coterie and is described in docs/spec, each with its reason.

Invariant: a reason is given only where the request and both answers have what it says. All that a
comparison leaves out is counted by its reason.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any

from coterie.assignors.java_order import bucket, table_size, topic_id_hash
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.share_acknowledge import ShareAcknowledgeRequest
from coterie.protocol.messages.share_fetch import ShareFetchRequest
from coterie.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.compared.share_groups.conversation import Conversation
from tests.compared.share_groups.exchange import Answer
from tests.compared.share_groups.readers import MORE_THAN_THERE_IS

_FAILED = ErrorCode.UNKNOWN_SERVER_ERROR
_NOT_FOUND = "Batch record not found. The request batch offsets are not found in the cache."
# How a record is refused whose batch is split, and how one whose batch is not.
_SPLIT_TEXTS = (
    ("Member is not the owner of offset", "Member is not the owner of batch record"),
    (
        "The offset cannot be acknowledged. The offset is not acquired.",
        "The batch cannot be acknowledged. The batch is not in the acquired state.",
    ),
)


class Reason(Enum):
    """Why an answer or a record of Kafka differs, or is not compared."""

    OVER_START = (
        "Kafka fails: a range that is acknowledged reaches over the start offset, where nothing is"
        " in flight [share-partitions/acknowledgement]"
    )
    WITHIN_ABORTED = (
        "Kafka fails: the start offset is within an aborted batch [share-partitions/acquisition]"
    )
    NOT_WAITED = (
        "a fetch did not wait for a partition to be loaded, as another has lost records or begins"
        " behind the end [share-partitions/log-start]"
    )
    SAME_BUCKET = (
        "the ids of topics share a bucket, in which Kafka has them in the order of their insertion"
        " [assignors/simple]"
    )
    SPLIT_TEXT = (
        "Kafka refuses an offset where Coterie refuses its batch [share-partitions/acknowledgement]"
    )
    CUT_BATCH = "Kafka sends the beginning of one more batch"
    REPEATED_RECORD = "Kafka writes record 15 again [share-groups/delete-offsets]"
    EMPTY_TOPIC = (
        "Kafka keeps a topic without partitions as initializing [share-groups/alter-offsets]"
    )


def reason_of(conversation: Conversation, kafka: Answer, our: Answer) -> Reason | None:
    """Return why an answer differs; None if docs/spec does not describe it.

    Args:
        conversation: what was said before.
        kafka, our: the answers to the same request.
    """
    request = kafka.request
    if isinstance(request, ShareGroupHeartbeatRequest):
        return Reason.SAME_BUCKET if _has_same_bucket(conversation, kafka, our) else None
    if not isinstance(request, ShareFetchRequest | ShareAcknowledgeRequest):
        return None
    if kafka.raw is None or our.raw is None or our.raw.error_code:
        return None
    if kafka.raw.error_code == _FAILED:
        return Reason.OVER_START if _refuses_range(our.raw) else None
    if isinstance(request, ShareAcknowledgeRequest) or kafka.raw.error_code:
        return None
    both = _parts(kafka.value), _parts(our.value)
    failed = {key for key, part in both[0].items() if part["error_code"] == _FAILED}
    if failed:
        differ = {key for key in both[0].keys() | both[1].keys() if _differs(key, *both)}
        return Reason.WITHIN_ABORTED if differ <= failed else None
    did_not_wait = (
        request.min_bytes == MORE_THAN_THERE_IS and kafka.seconds < request.max_wait_ms / 1000
    )
    if did_not_wait and conversation.is_restless(request):
        # What is left out is still being loaded; the rest is equal.
        shared = both[0].keys() & both[1].keys()
        is_less = both[0].keys() < both[1].keys()
        return (
            Reason.NOT_WAITED
            if is_less and not any(_differs(each, *both) for each in shared)
            else None
        )
    return None


def _has_same_bucket(conversation: Conversation, kafka: Answer, our: Answer) -> bool:
    """Return whether two topics are in one bucket, and answers differ in the assignment alone."""
    both = [dict(each.value, assignment=None) for each in (kafka, our)]
    if both[0] != both[1]:
        return False
    size = table_size(len(conversation.topic_ids))
    buckets = [bucket(topic_id_hash(each), size) for each in conversation.topic_ids.values()]
    return len(set(buckets)) < len(buckets)


def changes_nothing(reason: Reason, request: Any) -> bool:
    """Return whether both brokers go on from the same state after an answer that differs.

    So it is if only acknowledgements of one partition failed, which the other broker refused, and
    the session goes on.
    """
    return (
        reason is Reason.OVER_START
        and isinstance(request, ShareAcknowledgeRequest)
        and request.share_session_epoch > 0
        and sum(len(topic.partitions) for topic in request.topics) == 1
    )


def is_split_text(difference: str) -> bool:
    """Return whether a difference is a refusal of a batch that Kafka has split already.

    It splits the batch that is in flight before one of an aborted transaction that was read, even
    if that was not acquired.
    """
    return any(
        difference.endswith(f"Kafka {kafka!r}, Coterie {ours!r}") for kafka, ours in _SPLIT_TEXTS
    )


def _refuses_range(answer: Any) -> bool:
    """Return whether the answer of Coterie refuses a range because nothing is in flight there."""
    parts = [part for topic in answer.responses for part in topic.partitions]
    texts = [
        part.acknowledge_error_message
        if hasattr(part, "acknowledge_error_message")
        else part.error_message
        for part in parts
    ]
    return _NOT_FOUND in texts


def _parts(value: Any) -> dict[tuple[str, int], Any]:
    """Return the partitions of an answer, by topic and number."""
    return {
        (topic["topic_id"], part["partition_index"]): part
        for topic in value["responses"]
        for part in topic["partitions"]
    }


def _differs(key: tuple[str, int], one: dict[Any, Any], other: dict[Any, Any]) -> bool:
    return bool(one.get(key) != other.get(key))


def drop_cut_batches(value: Any) -> int:
    """Drop the beginnings of batches at the end of records; return how many there were."""
    count = 0
    for part in _parts(value).values():
        whole = [each for each in part["records"] if "cut" not in each]
        count += len(part["records"]) - len(whole)
        part["records"] = whole
    return count


def without_repetitions(
    stored: Iterable[tuple[str, Any]], known: Counter[Reason]
) -> Iterator[tuple[str, Any]]:
    """Leave out what Kafka has written of states for nothing.

    Args:
        stored: the records of a group.
        known: receives how many were left out, and how many topics without partitions.
    """
    latest: Any = None
    for name, value in stored:
        if not name.startswith("ShareGroupStatePartitionMetadataKey"):
            yield name, value
            continue
        if value is not None and value == latest:
            known[Reason.REPEATED_RECORD] += 1
            continue
        latest = value
        if value is not None:
            begun = [each for each in value["initializing_topics"] if each["partitions"]]
            known[Reason.EMPTY_TOPIC] += len(value["initializing_topics"]) - len(begun)
            value = {**value, "initializing_topics": begun}
        yield name, value
