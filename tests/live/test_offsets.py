"""Commits, seeks and resets, with each library in the test's own process."""

import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.live.broker_process import Broker
from tests.live.deadlines import eventually
from tests.live.groups import GroupView, produce_rows
from tests.live.libraries import Library, Reader, Reading, Received

ROWS = 30
# Kafka's default of offset.metadata.max.bytes is 4096; librdkafka adds a NUL to the metadata.
METADATA_MAX = 4095
# Clearly longer than the time that a busy machine needs.
FETCH_MAX_WAIT_MS = 29_000


@pytest.fixture
def topic(broker: Broker, make_topic: Callable[..., str]) -> str:
    """A topic of one partition with thirty records, whose name is also used for groups."""
    topic = make_topic()
    produce_rows(broker.bootstrap, topic, 1, ROWS)
    return topic


@pytest.fixture
def read(broker: Broker, library: Library) -> Iterator[Callable[..., Reader]]:
    """A function that opens a reader, which is closed with the test."""
    opened: list[Reader] = []

    def open_reader(group: str, topic: str = "", **more: Any) -> Reader:
        opened.append(library.reader(broker.bootstrap, Reading(group, topic or group, **more)))
        return opened[-1]

    yield open_reader
    for reader in opened:
        reader.close()


def test_commit_and_resume(topic: str, read: Callable[..., Reader]) -> None:
    """A committed offset and its metadata are read back; the next consumer continues there."""
    first = read(topic)
    assert [record.offset for record in first.read(10)] == list(range(10))
    assert first.committed(0) is None
    first.commit(0, 10, "half-way, naïvely")
    assert first.committed(0) == (10, "half-way, naïvely")
    first.close()
    second = read(topic)
    assert [record.offset for record in second.read(5)] == [10, 11, 12, 13, 14]
    assert second.committed(0) == (10, "half-way, naïvely")
    second.commit(0, 3)
    assert second.committed(0) == (3, "")


def test_seek(topic: str, read: Callable[..., Reader]) -> None:
    """Seeking changes the position in both directions, and commits nothing."""
    reader = read(topic)
    assert len(reader.read(ROWS)) == ROWS
    reader.seek(0, 5)
    assert [record.offset for record in reader.read(3)] == [5, 6, 7]
    reader.seek(0, 28)
    assert [record.offset for record in reader.read(2)] == [28, 29]
    assert reader.position(0) == ROWS
    assert reader.committed(0) is None


def test_auto_offset_reset_latest(broker: Broker, topic: str, read: Callable[..., Reader]) -> None:
    """Without a committed offset, `latest` starts at the end: only later records are read."""
    reader = read(topic, auto_offset_reset="latest")
    reader.wait_assigned()

    def produced_and_read() -> list[Received]:
        # The consumer looks the end up some time after the assignment; records produced in between
        # are not read.
        produce_rows(broker.bootstrap, topic, 1, 1)
        return reader.poll(1, 0.1)

    (first,) = eventually(produced_and_read, "the first record")
    assert first.offset >= ROWS
    produce_rows(broker.bootstrap, topic, 1, 5)
    assert [record.offset for record in reader.read(5)] == [first.offset + 1 + n for n in range(5)]


def test_auto_offset_reset_none(topic: str, read: Callable[..., Reader]) -> None:
    """Without a committed offset, `none` is an error in the application."""
    reader = read(topic, auto_offset_reset="none")
    errors: list[str] = []

    def refused() -> bool:
        try:
            assert reader.poll(1, 0.1) == []
        except AssertionError:
            raise
        except Exception as error:
            errors.append(repr(error))
        return bool(errors)

    eventually(refused, "an error from poll")
    assert re.search("NoOffset|_AUTO_OFFSET_RESET|_NO_OFFSET", errors[0])


def test_committed_offset_out_of_range(topic: str, read: Callable[..., Reader]) -> None:
    """A committed offset after the end of the log is reset according to auto.offset.reset."""
    first = read(topic)
    first.read(1)
    first.commit(0, 1_000_000)
    first.close()
    second = read(topic)
    assert [record.offset for record in second.read(3)] == [0, 1, 2]


def test_pause_and_resume(
    broker: Broker, make_topic: Callable[..., str], read: Callable[..., Reader]
) -> None:
    """A paused partition returns no records until it is resumed, and loses none."""
    topic = make_topic(partitions=2)
    reader = read(topic)
    reader.wait_assigned()
    reader.pause(0)
    produce_rows(broker.bootstrap, topic, 2, 40)
    assert {record.partition for record in reader.read(20)} == {1}
    assert reader.read_for(0.5) == []
    reader.resume(0)
    resumed = reader.read(20)
    assert {record.partition for record in resumed} == {0}
    assert [record.offset for record in resumed] == list(range(20))


def test_auto_commit(broker: Broker, topic: str, read: Callable[..., Reader]) -> None:
    """With enable.auto.commit the position is committed in the background."""
    reader = read(topic, auto_commit_ms=200)
    reader.read(ROWS)
    group = GroupView(broker.bootstrap, topic)

    def committed() -> bool:
        reader.poll(1, 0.05)
        return group.offsets() == {(topic, 0): ROWS}

    eventually(committed, "an automatic commit", evidence=group.offsets)


def test_too_long_metadata_is_refused(topic: str, read: Callable[..., Reader]) -> None:
    """Metadata longer than offset.metadata.max.bytes gets OFFSET_METADATA_TOO_LARGE."""
    reader = read(topic)
    reader.read(1)
    reader.commit(0, 1, "x" * METADATA_MAX)
    assert reader.committed(0) == (1, "x" * METADATA_MAX)
    with pytest.raises(Exception, match=r"(?i)offset_?metadata_?too_?large"):
        reader.commit(0, 2, "x" * (METADATA_MAX + 2))
    assert reader.committed(0) == (1, "x" * METADATA_MAX)


def test_simple_commit_without_membership(
    broker: Broker, topic: str, read: Callable[..., Reader]
) -> None:
    """A consumer with fixed partitions commits in a group without members, and resumes there."""
    first = read(topic, fixed_partitions=(0,))
    assert [record.offset for record in first.read(4)] == [0, 1, 2, 3]
    first.commit(0, 4, "simple")
    assert first.committed(0) == (4, "simple")
    first.close()
    group = GroupView(broker.bootstrap, topic)
    assert group.state() == "EMPTY"
    assert group.offsets() == {(topic, 0): 4}
    second = read(topic, fixed_partitions=(0,))
    assert [record.offset for record in second.read(2)] == [4, 5]


def test_simple_commit_in_a_group_with_members_is_refused(
    topic: str, read: Callable[..., Reader]
) -> None:
    """In a group with members, a commit without a member id gets UNKNOWN_MEMBER_ID."""
    member = read(topic)
    member.read(1)
    member.commit(0, 1)
    outsider = read(topic, fixed_partitions=(0,))
    outsider.read(1)
    with pytest.raises(Exception, match=r"(?i)unknown_?member_?id|commit_?failed|rebalanc"):
        outsider.commit(0, 20)
    assert member.committed(0) == (1, "")


def test_pattern_finds_a_topic_created_later(
    broker: Broker, make_topic: Callable[..., str], name: str, read: Callable[..., Reader]
) -> None:
    """A pattern subscription includes a matching topic that is created later, and no other."""
    first = make_topic(suffix="-wanted-a")
    make_topic(suffix="-other")
    produce_rows(broker.bootstrap, f"{name}-other", 1, 5)
    reader = read(name, pattern=f"^{name}-wanted-.*", metadata_max_age_ms=300)
    assert reader.wait_assigned() == {(first, 0)}
    second = make_topic(suffix="-wanted-b")
    produce_rows(broker.bootstrap, second, 1, 5)
    assert [record.offset for record in reader.read(5)] == list(range(5))
    assert reader.assigned() == {(first, 0), (second, 0)}


def test_delayed_fetch_completes_at_once(
    broker: Broker, topic: str, read: Callable[..., Reader]
) -> None:
    """A reader that waits at the end of a partition gets a new record immediately."""
    reader = read(topic, auto_offset_reset="earliest", fetch_max_wait_ms=FETCH_MAX_WAIT_MS)
    reader.read(ROWS)
    reader.poll(1, 0.1)
    began = time.monotonic()
    produce_rows(broker.bootstrap, topic, 1, 1)
    assert [record.offset for record in reader.read(1)] == [ROWS]
    # A Fetch that is not completed by the record waits for fetch.max.wait.ms.
    assert time.monotonic() - began < FETCH_MAX_WAIT_MS / 1000 / 2
