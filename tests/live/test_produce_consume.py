"""Records written by one client are read unchanged by all clients."""

from collections.abc import Callable

import pytest

from tests.live.broker_process import Broker
from tests.live.libraries import LIBRARIES, Library, Message, Received, Sending

# A time in the past that can't come from a clock during the test.
PAST_MS = 1_600_000_000_123

UNUSUAL_MESSAGES = [
    Message(b"plain"),
    Message(b"keyed", key=b"key", partition=1),
    Message(None, key=b"tombstone", partition=0),
    Message(b"", key=b"", partition=2),
    Message(bytes(range(256)), key="ключ".encode(), partition=1),
    Message(b"headers", headers=(("a", b"1"), ("a", b"2"), ("ünï", b"\x00\xff"), ("empty", b""))),
    Message(b"dated", timestamp_ms=PAST_MS, partition=2),
    *[Message(b"row-%d" % row, key=b"%d" % row) for row in range(300)],
]


def by_value(records: list[Received]) -> dict[bytes | None, Received]:
    """Return the records by value; values must be unique."""
    found = {record.value: record for record in records}
    assert len(found) == len(records), "a value was read twice"
    return found


def assert_read_back(sent: list[Message], read: list[Received]) -> None:
    """Check that each message was read once, unchanged, and in order within its partition."""
    assert len(read) == len(sent)
    found = by_value(read)
    for message in sent:
        record = found[message.value]
        assert record.key == message.key
        assert record.headers == message.headers
        if message.timestamp_ms is not None:
            assert record.timestamp_ms == message.timestamp_ms
        if message.partition is not None:
            assert record.partition == message.partition
    for partition in {record.partition for record in read}:
        offsets = sorted(record.offset for record in read if record.partition == partition)
        assert offsets == list(range(len(offsets)))


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_library_reads_what_each_has_written(
    broker: Broker, make_topic: Callable[..., str], library: Library, codec: str
) -> None:
    """Keys, null and empty values, binary data, repeated headers and timestamps are unchanged.

    Each library that supports the codec reads the records.
    """
    if codec not in library.compressions():
        pytest.skip(f"{library.name} has no {codec} here; install its optional dependency")
    topic = make_topic(partitions=3)
    library.produce(broker.bootstrap, topic, UNUSUAL_MESSAGES, Sending(compression=codec))
    readers = [reader for reader in LIBRARIES if codec in reader.compressions()]
    assert library in readers
    for reader in readers:
        read = reader.consume(broker.bootstrap, topic, 3, len(UNUSUAL_MESSAGES))
        assert_read_back(UNUSUAL_MESSAGES, read)


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_acks(broker: Broker, make_topic: Callable[..., str], library: Library, acks: str) -> None:
    """Records are stored with each acks setting; with 1 and all the response has the offset."""
    topic = make_topic()
    messages = [Message(b"%d" % row, partition=0) for row in range(100)]
    offsets = library.produce(broker.bootstrap, topic, messages, Sending(acks=acks))
    if acks != "0":
        assert offsets == list(range(100))
    read = library.consume(broker.bootstrap, topic, 1, 100)
    assert [record.value for record in read] == [message.value for message in messages]


def test_large_messages(broker: Broker, make_topic: Callable[..., str], library: Library) -> None:
    """Messages slightly below the default limit, and of several MiB if the topic allows them."""
    topic = make_topic(config={"max.message.bytes": str(8 << 20)})
    messages = [
        Message(bytes([size_kib % 251]) * (size_kib << 10), partition=0)
        for size_kib in (1000, 3000, 5000)
    ]
    sending = Sending(max_request_bytes=8 << 20, linger_ms=0)
    assert library.produce(broker.bootstrap, topic, messages, sending) == [0, 1, 2]
    for reader in LIBRARIES:
        read = reader.consume(broker.bootstrap, topic, 1, 3)
        assert [len(record.value or b"") for record in read] == [
            len(message.value or b"") for message in messages
        ], reader.name
        assert [record.value for record in read] == [message.value for message in messages]


def test_too_large_message_is_refused(
    broker: Broker, make_topic: Callable[..., str], library: Library
) -> None:
    """Above the topic's max.message.bytes the producer gets MESSAGE_TOO_LARGE."""
    topic = make_topic(config={"max.message.bytes": "20000"})
    with pytest.raises(Exception, match=r"(?i)MESSAGE_TOO_LARGE|MSG_SIZE_TOO_LARGE|too.?large"):
        library.produce(broker.bootstrap, topic, [Message(b"x" * 50_000, partition=0)])
    assert library.produce(broker.bootstrap, topic, [Message(b"fits", partition=0)]) == [0]


def test_log_append_time(broker: Broker, make_topic: Callable[..., str], library: Library) -> None:
    """With message.timestamp.type=LogAppendTime the broker sets the timestamps."""
    topic = make_topic(config={"message.timestamp.type": "LogAppendTime"})
    library.produce(broker.bootstrap, topic, [Message(b"dated", timestamp_ms=PAST_MS, partition=0)])
    for reader in LIBRARIES:
        (record,) = reader.consume(broker.bootstrap, topic, 1, 1)
        assert record.timestamp_ms > PAST_MS + 10_000_000_000, reader.name


def test_first_producer_creates_the_topic(broker: Broker, name: str, library: Library) -> None:
    """auto.create.topics.enable is true by default: producing to an unknown topic creates it."""
    messages = [Message(b"%d" % row) for row in range(20)]
    library.produce(broker.bootstrap, name, messages)
    read = library.consume(broker.bootstrap, name, 1, 20)
    assert sorted(record.value or b"" for record in read) == sorted(
        message.value or b"" for message in messages
    )
