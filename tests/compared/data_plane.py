"""Compare Produce, Fetch, ListOffsets and DeleteRecords of a broker with those of a running Kafka.

    python -m tests.compared.data_plane 127.0.0.1:19092

sends the same bytes to a broker of its own and to Kafka 4.3.1, and prints the answers that differ.
The exit code is 1 if any does. It makes topics, and needs a Kafka without them.
"""

import re
import socket
import struct
import sys
import time
from collections.abc import Iterator
from typing import Any

from coterie.address import Address
from coterie.protocol.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestConfig,
    CreateTopicsRequestTopic,
)
from coterie.protocol.messages.delete_records import (
    DeleteRecordsRequest,
    DeleteRecordsRequestPartition,
    DeleteRecordsRequestTopic,
)
from coterie.protocol.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
)
from coterie.protocol.messages.produce import ProduceRequest
from coterie.protocol.record_batch_layout import LOG_APPEND_TIME
from coterie.protocol.records import Compression, read_header
from tests.unit.server.produced import batch, damaged, fetch_request, produce_request
from tests.unit.server.running import RunningBroker, SocketClient

_TOPICS = {
    "t": {},
    "l": {"message.timestamp.type": "LogAppendTime"},
    "z": {"compression.type": "zstd"},
    "c": {"cleanup.policy": "compact"},
    "cd": {"cleanup.policy": "compact,delete"},
    "small": {"max.message.bytes": "200"},
    "window": {
        "message.timestamp.before.max.ms": "1000",
        "message.timestamp.after.max.ms": "1000",
    },
}
_NOW_MS = time.time_ns() // 1_000_000
_ATTRIBUTES, _LAST_DELTA, _MAX_TIMESTAMP, _COUNT = 21, 23, 35, 57
_CODECS = (Compression.NONE, Compression.GZIP, Compression.ZSTD)

# Times of the broker, and the host and port that it answers.
_VARIES = re.compile(
    r"log_append_time_ms=\d{13}|within \[-?\d+, \d+\]|host='[^']*', port=\d+|topic_id=b'(\\x00)+'"
)
_NOT_READY = ("error_code=3,", "error_code=6,")

Case = tuple[str, Any, int]


def _requests() -> Iterator[Case]:
    """Return the requests, each with a name and a version."""
    yield from _produced()
    yield from _repeated()
    yield from _fetched()
    yield from _listed()
    yield from _deleted()


def _produced() -> Iterator[Case]:
    for codec in _CODECS:
        data = batch(b"a", b"b", timestamp_ms=_NOW_MS, compression=codec)
        claims = damaged(damaged(data, _COUNT, ">i", 3), _LAST_DELTA, ">i", 2)
        of_log = read_header(data).attributes | LOG_APPEND_TIME
        batches = {
            "good": data,
            "claims one more": claims,
            "claims one less": damaged(damaged(data, _COUNT, ">i", 1), _LAST_DELTA, ">i", 0),
            "maximum timestamp too great": damaged(data, _MAX_TIMESTAMP, ">q", _NOW_MS + 5),
            "maximum timestamp absent": damaged(data, _MAX_TIMESTAMP, ">q", -1),
            "append time set": damaged(data, _ATTRIBUTES, ">h", of_log),
            "control": damaged(data, _ATTRIBUTES, ">h", read_header(data).attributes | 0x20),
            "codec 5": damaged(data, _ATTRIBUTES, ">h", 5),
            "no records": damaged(damaged(data, _COUNT, ">i", 0), _LAST_DELTA, ">i", -1),
            "magic 3": data[:16] + b"\3" + data[17:],
            "magic 1": data[:16] + b"\1" + data[17:],
            "wrong checksum": data[:17] + b"\0\0\0\0" + data[21:],
            "base offset 5": struct.pack(">q", 5) + data[8:],
            "truncated": data[:-1],
            "empty": b"",
            "two batches": data + data,
            "old": batch(b"a", timestamp_ms=_NOW_MS - 10_000, compression=codec),
            "future": batch(b"a", timestamp_ms=_NOW_MS + 7_200_000, compression=codec),
            "no key": batch(b"a", b"b", key=None, timestamp_ms=_NOW_MS, compression=codec),
            "large": batch(b"a" * 500 + bytes(range(256)), timestamp_ms=_NOW_MS),
            "epoch -1": batch(b"a", producer=(5, -1, -1), timestamp_ms=_NOW_MS),
            "sequence -1": batch(b"a", producer=(5, 0, -1), timestamp_ms=_NOW_MS),
            **{f"{n} bytes behind": data + b"x" * n for n in (1, 3, 11, 12, 16, 17, 40)},
        }
        for name, records in batches.items():
            for topic in _TOPICS:
                request = produce_request(records, topic)
                yield f"produce {codec.name} {name} to {topic}", request, 9
    good = batch(b"a", timestamp_ms=_NOW_MS)
    for acks in (-1, 1, 2, -2):
        for topic in ("t", "absent", "__consumer_offsets", "a b"):
            yield f"acks {acks} to {topic}", produce_request(good, topic, acks=acks), 9
        yield f"acks {acks} of bad", produce_request(good[:-1], acks=acks), 9
    for version in range(3, 13):
        yield f"produce {version}", produce_request(good), version
        yield (
            f"produce zstd {version}",
            produce_request(batch(b"a", timestamp_ms=_NOW_MS, compression=Compression.ZSTD)),
            version,
        )
        yield f"partition 7 {version}", produce_request(good, "t", 7), version


def _repeated() -> Iterator[Case]:
    first, second = (
        produce_request(batch(value, timestamp_ms=_NOW_MS), "t") for value in (b"1", b"2")
    )
    both = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=first.topic_data + second.topic_data)
    yield "topic twice", both, 9
    topic = produce_request(batch(b"1", timestamp_ms=_NOW_MS), "t").topic_data[0]
    topic.partition_data.append(second.topic_data[0].partition_data[0])
    yield "partition twice", ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic]), 9


def _fetched() -> Iterator[Case]:
    for version in range(4, 13):
        yield f"fetch {version}", fetch_request((0, 0), topic="cd"), version
    for name, fields in {
        "minimum above maximum": {"min_bytes": 1 << 26, "max_bytes": 10, "max_wait_ms": 60_000},
        "maximum -1": {"max_bytes": -1},
        "maximum 0": {"max_bytes": 0},
        "partition maximum -1": {"partition_max_bytes": -1},
        "epoch -2": {"current_leader_epoch": -2},
        "epoch 5": {"current_leader_epoch": 5},
        "epoch 0": {"current_leader_epoch": 0},
        "last fetched epoch 5": {"last_fetched_epoch": 5},
        "last fetched epoch 0": {"last_fetched_epoch": 0},
        "isolation 1": {"isolation_level": 1},
        "isolation 2": {"isolation_level": 2},
    }.items():
        yield f"fetch with {name}", fetch_request((0, 0), topic="small", **fields), 12
    for offset in (-1, 10_000):
        yield f"fetch at {offset}", fetch_request((0, offset)), 12
    yield "fetch partition 7", fetch_request((7, 0)), 12
    yield "fetch of absent", fetch_request((0, 0), topic="absent"), 12
    shapes: dict[str, list[tuple[str, list[tuple[int, int]]]]] = {
        "no partitions": [("t", [])],
        "neighbours": [("t", [(0, 0)]), ("small", []), ("t", [(7, 0)])],
        "a topic between": [("t", [(0, 0)]), ("small", [(0, 0)]), ("t", [(7, 0)])],
        "a partition twice": [("t", [(0, 0)]), ("small", [(0, 0)]), ("t", [(0, 10_000)])],
    }
    for name, entries in shapes.items():
        request = fetch_request()
        request.topics = [fetch_request(*read, topic=topic).topics[0] for topic, read in entries]
        yield f"fetch of {name}", request, 12


def _listed() -> Iterator[Case]:
    for version in range(1, 12):
        for timestamp in (*range(-7, 0), 0, _NOW_MS, _NOW_MS + 10_000_000):
            yield f"list {timestamp} v{version}", _list_request(timestamp), version
    for isolation in (0, 1, 2):
        yield f"list isolation {isolation}", _list_request(-1, isolation), 8
    for epoch in (-2, -1, 0, 5):
        yield f"list epoch {epoch}", _list_request(-1, epoch=epoch), 8


def _list_request(timestamp: int, isolation: int = 0, epoch: int = -1) -> ListOffsetsRequest:
    asked = ListOffsetsRequestPartition(
        partition_index=0, timestamp=timestamp, current_leader_epoch=epoch
    )
    topic = ListOffsetsRequestTopic(name="window", partitions=[asked])
    return ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=[topic])


def _deleted() -> Iterator[Case]:
    for topic in ("t", "c", "cd", "absent", "__consumer_offsets"):
        for offset in (1, 0, -1, -2, 1 << 40):
            yield f"delete {topic} {offset}", _delete_request(topic, (0, offset)), 2
    yield "delete twice", _delete_request("l", (0, 1), (0, 2)), 2
    yield "delete partition 7", _delete_request("l", (7, 1)), 2


def _delete_request(topic: str, *partitions: tuple[int, int]) -> DeleteRecordsRequest:
    asked = [
        DeleteRecordsRequestPartition(partition_index=index, offset=offset)
        for index, offset in partitions
    ]
    named = DeleteRecordsRequestTopic(name=topic, partitions=asked)
    return DeleteRecordsRequest(topics=[named], timeout_ms=10_000)


def _answer(client: SocketClient, request: Any, version: int) -> str:
    try:
        return _VARIES.sub("...", repr(client.call(request, version)))
    except (EOFError, TimeoutError) as error:
        return f"no answer: {type(error).__name__}"


def _create_topics(client: SocketClient) -> None:
    request = CreateTopicsRequest(
        topics=[
            CreateTopicsRequestTopic(
                name=name,
                num_partitions=1,
                replication_factor=1,
                configs=[CreateTopicsRequestConfig(name=a, value=b) for a, b in configs.items()],
            )
            for name, configs in _TOPICS.items()
        ],
        timeout_ms=10_000,
    )
    for result in client.call(request, 7).topics:
        assert not result.error_code, f"{result.name}: {result.error_message}"
    for name in _TOPICS:
        fetched = fetch_request((0, 0), topic=name)
        while any(text in _answer(client, fetched, 12) for text in _NOT_READY):
            time.sleep(0.1)


def main() -> None:
    """Compare with the Kafka that the first argument names."""
    kafka = Address.parse(sys.argv[1])
    count = differences = 0
    with (
        RunningBroker({"auto.create.topics.enable": "false"}) as broker,
        broker.client() as ours,
        SocketClient(socket.create_connection(kafka, timeout=20)) as theirs,
    ):
        for client in (theirs, ours):
            _create_topics(client)
        for name, request, version in _requests():
            count += 1
            expected, found = (_answer(each, request, version) for each in (theirs, ours))
            if found != expected:
                differences += 1
                print(f"{name}\n    Kafka   {expected}\n    Coterie {found}")
    print(f"{count} requests, {differences} answers differ")
    sys.exit(1 if differences else 0)


if __name__ == "__main__":
    main()
