"""The history of a KIP-848 group from rows of the view `consumer_epochs`
[pipeline/epoch-rebalance].

Rules: [pipeline/topic-ids].
"""

from typing import Any

from coterie.pipeline.records.epochs import epoch_fields
from coterie.pipeline.timeline.from_epochs import epochs_history
from coterie.pipeline.timeline.model import Evidence
from coterie.protocol.messages.consumer_group_records import (
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    SubscribedTopicMetadata,
)
from coterie.protocol.messages.log_records import encode_key, encode_value

TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
NAMES = {TOPIC_ID: "a"}


def row(kind: str, at_ms: int, **fields: Any) -> dict[str, Any]:
    empty = dict.fromkeys(("instance_id", "client_id", "client_host", "topics"))
    return {"kind": kind, "record_ts": at_ms, "is_tombstone": False, **empty, **fields}


def member(at_ms: int, name: str, *topics: str) -> dict[str, Any]:
    return row("member", at_ms, member_id=name, client_id=f"c-{name}", topics=list(topics or "a"))


def removed(at_ms: int, name: str) -> dict[str, Any]:
    return row("member", at_ms, member_id=name, is_tombstone=True)


def epoch(at_ms: int, number: int) -> dict[str, Any]:
    return row("group", at_ms, group_epoch=number)


def current(
    at_ms: int, name: str, number: int, *partitions: int, revoking: tuple[int, ...] = ()
) -> dict[str, Any]:
    return row(
        "current_member",
        at_ms,
        member_id=name,
        member_epoch=number,
        state="UnrevokedPartitions" if revoking else "Stable",
        assigned=[{"topic_id": TOPIC_ID, "partition": each} for each in partitions],
        pending_revocation=[{"topic_id": TOPIC_ID, "partition": each} for each in revoking],
    )


ONE_MEMBER = [member(0, "one"), epoch(0, 1), current(100, "one", 1, 0, 1)]


def test_new_member_gets_partitions_that_another_gives_up() -> None:
    found = epochs_history(
        "g",
        [
            *ONE_MEMBER,
            member(1000, "two"),
            epoch(1000, 2),
            current(1010, "two", 2),
            current(1500, "one", 1, 0, revoking=(1,)),
            current(1700, "one", 2, 0),
            current(1900, "two", 2, 0 + 1),
        ],
        NAMES,
    )
    first, second = found.rebalances
    assert (first.started_ms, first.completed_ms, first.unowned_partition_ms) == (0, 100, 0)
    assert (second.started_ms, second.from_generation, second.to_generation) == (1000, 1, 2)
    assert second.trigger[:2] == ("join", "two")
    assert second.evidence is Evidence.LOG
    assert second.joined == ("two",)


def test_rebalance_ends_when_every_member_is_stable_in_the_newest_epoch() -> None:
    found = epochs_history(
        "g",
        [
            *ONE_MEMBER,
            member(1000, "two"),
            epoch(1000, 2),
            current(1500, "one", 2, 0),
            current(1900, "two", 2, 1),
        ],
        NAMES,
    )
    last = found.rebalances[-1]
    assert last.completed_ms == 1900
    assert (last.moved, last.unowned_partition_ms) == (1, 400)
    move = found.moves[-1]
    assert (move.topic, move.partition, move.from_member_key, move.to_member_key, move.gap_ms) == (
        "a",
        1,
        "one",
        "two",
        400,
    )


def test_partitions_of_a_member_that_leaves_are_without_owner() -> None:
    found = epochs_history(
        "g",
        [
            *ONE_MEMBER,
            member(1000, "two"),
            epoch(1000, 2),
            current(1500, "one", 2, 0),
            current(1900, "two", 2, 1),
            removed(5000, "one"),
            epoch(5000, 3),
            current(5600, "two", 3, 0, 1),
        ],
        NAMES,
    )
    last = found.rebalances[-1]
    assert last.trigger[:2] == ("leave or expiry", "one")
    assert (last.left, last.moved, last.unowned_partition_ms) == (("one",), 1, 600)
    exits = {each.member_key: each.exit_kind for each in found.sessions}
    assert exits == {"one": "leave or expiry", "two": None}


def test_epochs_in_between_belong_to_the_running_rebalance() -> None:
    found = epochs_history(
        "g",
        [
            *ONE_MEMBER,
            member(1000, "two"),
            epoch(1000, 2),
            member(1200, "three"),
            epoch(1200, 3),
            current(1500, "one", 3, 0),
            current(1600, "two", 3, 1),
            current(1700, "three", 3),
        ],
    )
    last = found.rebalances[-1]
    assert len(found.rebalances) == 2
    assert (last.started_ms, last.completed_ms, last.skipped_generations) == (1000, 1700, 1)
    assert last.joined == ("two", "three")


def test_epoch_without_a_changed_member_is_a_metadata_change() -> None:
    found = epochs_history("g", [*ONE_MEMBER, epoch(900, 2), current(950, "one", 2, 0, 1, 2)])
    last = found.rebalances[-1]
    assert last.trigger.cause == "topics changed"
    assert last.partitions == 3


def test_group_is_empty_after_the_last_member_has_left() -> None:
    found = epochs_history("g", [*ONE_MEMBER, removed(700, "one"), epoch(700, 2)])
    last = found.rebalances[-1]
    assert (last.members, last.partitions, last.completed_ms) == (0, 0, 700)
    assert all(each.to_ms == 700 for each in found.ownership)


def test_running_rebalance_has_no_end() -> None:
    found = epochs_history("g", [*ONE_MEMBER, member(1000, "two"), epoch(1000, 2)])
    assert found.rebalances[-1].completed_ms is None


def test_topics_of_an_older_kafka_are_read() -> None:
    """[group-log/record-types]"""
    key = ConsumerGroupPartitionMetadataKey(group_id="g")
    topic = SubscribedTopicMetadata(
        topic_id=bytes(16), topic_name="orders", num_partitions=3, partition_metadata=[]
    )
    value = encode_value(ConsumerGroupPartitionMetadataValue(topics=[topic]))
    found = epoch_fields(encode_key(key), value)
    assert (found["record_type"], found["kind"], found["topics"]) == (4, "topics", ["orders"])
    assert epoch_fields(encode_key(key), None)["is_tombstone"]
