"""A log of groups that commit and rebalance, for measuring the gold tables.

Groups have four members and 100 partitions under `range`. In every generation one member leaves and
another joins, evenly spread over the commits.
"""

import os
import random

from benchmarks_pipeline.logs import START_MS, SegmentWriter
from coterie.assignors.model import MemberSubscription
from coterie.assignors.range import assign_range
from coterie.protocol.java_hash import partition_for
from coterie.protocol.messages import consumer_protocol as consumer
from coterie.protocol.messages.log_records import (
    GroupMetadataKey,
    GroupMetadataMember,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    encode_key,
)
from coterie.protocol.topic_names import OFFSETS_TOPIC

GROUPS = 400
MEMBERS = 4
PARTITIONS = 100
LOG_PARTITIONS = 8
_SEGMENT_BYTES = 100 << 20
# The average number of records in a batch, as a consumer of several partitions commits them.
_BATCH_RECORDS = 13.5


class _Group:
    def __init__(self, number: int, writers: list[SegmentWriter]) -> None:
        self.name = f"consumer-group-{number}"
        self.topic = f"orders-{number % 20}"
        self.writer = writers[partition_for(self.name, len(writers))]
        self.keys = [
            encode_key(OffsetCommitKey(group=self.name, topic=self.topic, partition=each))
            for each in range(PARTITIONS)
        ]
        self.generation = 0
        self.offset = 0

    def rebalance(self, now_ms: int) -> None:
        """Complete the next generation, and log it."""
        self.generation += 1
        ids = [f"{self.name}-member-{self.generation + each}" for each in range(MEMBERS)]
        subscribed = [MemberSubscription(each, (self.topic,)) for each in ids]
        given = assign_range({self.topic: PARTITIONS}, subscribed)
        subscription = consumer.encode_subscription(
            consumer.ConsumerProtocolSubscription(topics=[self.topic])
        )
        members = []
        for each in ids:
            numbers = [partition.partition for partition in given[each]]
            assigned = consumer.TopicPartition(topic=self.topic, partitions=numbers)
            assignment = consumer.ConsumerProtocolAssignment(assigned_partitions=[assigned])
            members.append(
                GroupMetadataMember(
                    member_id=each,
                    group_instance_id=None,
                    client_id=each,
                    client_host="/127.0.0.1",
                    rebalance_timeout=60_000,
                    session_timeout=10_000,
                    subscription=subscription,
                    assignment=consumer.encode_assignment(assignment),
                )
            )
        value = GroupMetadataValue(
            protocol_type="consumer",
            generation=self.generation,
            protocol="range",
            leader=ids[0],
            current_state_timestamp=now_ms,
            members=members,
        )
        encoded = (3).to_bytes(2) + GroupMetadataValue.encoder(3)(value)
        self.writer.append([(encode_key(GroupMetadataKey(group=self.name)), encoded)], now_ms)


def write_histories(path: str, commits: int, generations: int, seed: int = 1) -> int:
    """Write a data directory, and return its size in bytes."""
    rng = random.Random(seed)
    directories = [
        os.path.join(path, f"{OFFSETS_TOPIC}-{number}") for number in range(LOG_PARTITIONS)
    ]
    writers = [SegmentWriter(directory, _SEGMENT_BYTES) for directory in directories]
    groups = [_Group(number, writers) for number in range(GROUPS)]
    topic_id = rng.randbytes(16)
    encode = OffsetCommitValue.encoder(4)
    written = rebalanced = 0
    now_ms = START_MS
    while written < commits:
        while rebalanced < generations and rebalanced * commits <= written * generations:
            groups[rebalanced % GROUPS].rebalance(now_ms)
            rebalanced += 1
        group = groups[rng.randrange(GROUPS)]
        count = min(rng.randint(1, int(2 * _BATCH_RECORDS) - 1), commits - written)
        now_ms += 2
        group.offset += 5
        value = (4).to_bytes(2) + encode(
            OffsetCommitValue(
                offset=group.offset,
                leader_epoch=3,
                metadata="",
                commit_timestamp=now_ms,
                topic_id=topic_id,
            )
        )
        first = rng.randrange(PARTITIONS)
        group.writer.append(
            [(group.keys[(first + each) % PARTITIONS], value) for each in range(count)], now_ms
        )
        written += count
    for writer in writers:
        writer.close()
    return sum(
        entry.stat().st_size
        for directory in directories
        for entry in os.scandir(directory)
        if entry.name.endswith(".log")
    )
