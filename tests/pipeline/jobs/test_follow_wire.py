"""Following a cluster over the wire while its server is killed and started again.

`Wire` is a thread with a callback and needs no Spark, so these tests take seconds.

Rules: [pipeline/log-ends].
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pyarrow.dataset as ds
import pytest

pytest.importorskip("pyspark", reason="needs pip install coterie[pipeline]")

from coterie.client.cluster import Cluster, TopicPartition
from coterie.client.errors import BrokerUnreachable, ClientError, Refused
from coterie.client.security import Security
from coterie.client.topics import create_topic
from coterie.pipeline.jobs import follow_wire, live_store
from coterie.pipeline.jobs.clusters import copy_clusters
from coterie.pipeline.jobs.follow_wire import Wire
from coterie.pipeline.jobs.inputs import identity_of
from coterie.pipeline.jobs.live_store import LiveStore
from coterie.pipeline.lag import committed_in
from coterie.pipeline.ranges import log_end
from coterie.pipeline.segments import NoSuchLog, find_partitions
from coterie.protocol.errors import ErrorCode
from coterie.protocol.topic_names import JOURNAL_TOPIC, OFFSETS_TOPIC, SHARE_GROUPS_TOPIC
from tests.live.broker_process import FAST_GROUPS, BrokerProcess
from tests.pipeline.test_kafka_input import GROUPS, commit, join_a_group

PATIENCE_S = 60.0
TRIGGER_MS = 50
PARTITIONS = 3

Place = tuple[int, int]


class Followed:
    """One cluster, followed into a store of its own."""

    def __init__(self, server: BrokerProcess, store: LiveStore) -> None:
        self.server = server
        self.store = store
        self.wire = Wire("kafka://" + server.bootstrap, store, self.append, TRIGGER_MS)

    def append(
        self,
        source: str,
        topic: str,
        directories: dict[str, str],
        positions: dict[int, int],
        rows: int,
        about: dict[str, Any] | None = None,
    ) -> None:
        """Commit written parts, as `_Following.append` does."""
        reached = {source: {topic: positions}} if positions else {}
        report = {"run": 0, "rows": rows}
        self.store.append(directories, reached, report, {source: about} if about else None)

    def wait(self, is_reached: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not is_reached():
            self.wire.check()
            assert time.monotonic() < deadline, "not in time"
            time.sleep(0.02)

    def commit(self, rounds: int, first: int = 0) -> None:
        """Commit, and wait until the records are in bronze."""
        before = self.store.rows("log_records")
        with Cluster(self.server.bootstrap) as cluster:
            commit(cluster, rounds, first)
        self.wait(lambda: self.store.rows("log_records") >= before + rounds * 9 * PARTITIONS)

    def places(self, table: str) -> list[Place]:
        """Return the places of the records that a reader of Parquet finds in a table."""
        columns = ["log_partition", "log_offset"]
        if not self.store.rows(table):
            return []
        found = ds.dataset(self.store.path + "/" + table, format="parquet").to_table(columns)
        return sorted(zip(*(column.to_pylist() for column in found.columns), strict=True))

    def places_in_files(self, topic: str) -> list[Place]:
        """Return the places of the records in the server's files, which are not compacted yet."""
        partitions = find_partitions(str(self.server.data_dir), topic)
        return [
            (number, offset)
            for number, path in sorted(partitions.items())
            for offset in range(log_end(path))
        ]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path / "data", FAST_GROUPS | {"offsets.topic.num.partitions": "4"})
    process.start()
    with Cluster(process.bootstrap) as cluster:
        assert not create_topic(cluster, "paid", PARTITIONS, 1).error
    yield process
    process.kill()


@pytest.fixture
def followed(server: BrokerProcess, tmp_path: Path) -> Iterator[Followed]:
    with LiveStore.open(str(tmp_path / "out")) as store:
        followed = Followed(server, cast("LiveStore", store))
        followed.wire.start()
        yield followed
        followed.wire.stop()
        assert not followed.wire.is_alive()


def test_new_commits_become_rows(followed: Followed) -> None:
    followed.commit(2)
    followed.commit(1, first=2)
    identity = identity_of(str(followed.server.data_dir))
    assert followed.store.inputs == [identity]
    assert followed.places("log_records") == followed.places_in_files(OFFSETS_TOPIC)
    ends = dict.fromkeys(range(4), 0)
    for number, offset in followed.places("log_records"):
        ends[number] = offset + 1
    assert followed.store.position(identity) == ends
    # The log ends are requested with the first commits.
    followed.wait(lambda: followed.store.rows("log_ends") == PARTITIONS)
    about = followed.store.about(identity)
    assert about["paths"] == ["kafka://" + followed.server.bootstrap]
    assert about["partitions"] == {
        OFFSETS_TOPIC: 4,
        JOURNAL_TOPIC: None,
        SHARE_GROUPS_TOPIC: None,
    }


def test_every_record_counts_once_although_the_server_is_killed(
    followed: Followed,
) -> None:
    rounds = 0
    for _ in range(2):
        followed.commit(2, first=rounds)
        rounds += 2
        followed.server.kill()
        time.sleep(0.3)
        followed.server.start()
    followed.commit(2, first=rounds)
    with Cluster(followed.server.bootstrap) as cluster:
        # Records that the old server appended just before its end are read from the new one.
        commit(cluster, 3, first=rounds + 2)
    followed.server.kill()
    followed.server.start()
    expected = (rounds + 5) * len(GROUPS) * PARTITIONS
    followed.wait(lambda: followed.store.rows("log_records") >= expected)
    followed.wire.stop()
    followed.wire.check()
    assert followed.places("log_records") == followed.places_in_files(OFFSETS_TOPIC)
    assert len(followed.places("log_records")) == expected


def test_check_of_records_notices_lost_positions(
    followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    followed.commit(1)
    monkeypatch.setattr(follow_wire, "known_positions", lambda _, log: log.first_offsets())
    followed.server.kill()
    followed.server.start()
    twice = 2 * 9 * PARTITIONS
    followed.wait(lambda: followed.store.rows("log_records") >= twice)
    followed.wire.stop()
    assert followed.places("log_records") != followed.places_in_files(OFFSETS_TOPIC)


def test_following_waits_for_a_server_that_has_not_started(
    server: BrokerProcess, tmp_path: Path
) -> None:
    server.kill()
    with LiveStore.open(str(tmp_path / "out")) as store:
        followed = Followed(server, cast("LiveStore", store))
        followed.wire.start()
        time.sleep(0.2)
        followed.wire.check()
        server.start()
        followed.commit(1)
        followed.wire.stop()


def test_journal_is_followed_when_it_appears(
    followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow_wire, "_TOPICS_EVERY_S", 0.1)
    followed.commit(1)
    identity = identity_of(str(followed.server.data_dir))
    assert followed.store.about(identity)["partitions"][JOURNAL_TOPIC] is None
    assert not followed.store.rows("journal_records")
    join_a_group(followed.server.bootstrap)

    def is_read() -> bool:
        try:
            expected = followed.places_in_files(JOURNAL_TOPIC)
        except NoSuchLog:
            return False
        return bool(expected) and followed.places("journal_records") == expected

    followed.wait(is_read)
    # Checks need the number of partitions.
    partitions = find_partitions(str(followed.server.data_dir), JOURNAL_TOPIC)
    assert followed.store.about(identity)["partitions"][JOURNAL_TOPIC] == len(partitions)


def test_following_continues_where_a_copy_ended_and_requests_its_log_ends(
    server: BrokerProcess, tmp_path: Path
) -> None:
    output = str(tmp_path / "out")
    with Cluster(server.bootstrap) as cluster:
        commit(cluster, 2)
    (copy,) = copy_clusters(["kafka://" + server.bootstrap], output)
    copied = copy.rows
    assert copied == 2 * 9 * PARTITIONS
    with LiveStore.open(output) as store:
        followed = Followed(server, cast("LiveStore", store))
        known = followed.store.rows("log_ends")
        followed.wire.start()
        # No group commits to these partitions any more.
        followed.wait(lambda: followed.store.rows("log_ends") == known + PARTITIONS)
        assert followed.store.rows("log_records") == copied
        followed.commit(1, first=2)
        followed.wire.stop()
        assert followed.places("log_records") == followed.places_in_files(OFFSETS_TOPIC)


def test_parts_are_not_merged_while_a_thread_reads_which_partitions_groups_committed_to(
    server: BrokerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = str(tmp_path / "out")
    with Cluster(server.bootstrap) as cluster:
        for rounds in range(3):
            commit(cluster, 1, first=rounds)
            copy_clusters(["kafka://" + server.bootstrap], output)
    monkeypatch.setattr(live_store, "MAX_PARTS", 2)
    with LiveStore.open(output) as opened:
        store = cast("LiveStore", opened)
        followed = Followed(server, store)
        ends = store.rows("log_ends")
        store.snapshot().commit({}, {})
        merged = []

        def read_after_a_merge(files: list[str], identity: str) -> set[TopicPartition]:
            merged.append(store.merge("log_records"))
            return committed_in(files, identity)

        monkeypatch.setattr(follow_wire, "committed_in", read_after_a_merge)
        followed.wire.start()
        followed.wait(lambda: store.rows("log_ends") == ends + PARTITIONS)
        followed.wire.stop()
        assert merged == [0]
        # It was the reading that kept the parts.
        assert store.merge("log_records") == 2


def test_log_that_lost_its_end_ends_following(server: BrokerProcess, tmp_path: Path) -> None:
    with Cluster(server.bootstrap) as cluster:
        commit(cluster, 1)
    identity = identity_of(str(server.data_dir))
    with LiveStore.open(str(tmp_path / "out")) as opened:
        store = cast("LiveStore", opened)
        store.append({}, {identity: {OFFSETS_TOPIC: {0: 1_000_000}}}, {"run": 0})
        followed = Followed(server, store)
        followed.wire.start()
        with pytest.raises(ClientError, match="truncated"):
            followed.wait(lambda: False)
        followed.wire.stop()


@pytest.mark.parametrize(
    ("error", "is_waited_for"),
    [
        (BrokerUnreachable("refused"), True),
        (Refused(ErrorCode.LEADER_NOT_AVAILABLE, "x"), True),
        (Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER, "x"), True),
        (Refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "x"), False),
        (ClientError("truncated"), False),
        (ValueError("a mistake of ours"), False),
    ],
)
def test_only_an_unavailable_cluster_is_waited_for(
    error: Exception, is_waited_for: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def refuse(source: str, *, crc: bool, security: Security) -> None:
        calls.append(source)
        raise error

    monkeypatch.setattr(follow_wire, "KafkaLog", refuse)
    monkeypatch.setattr(follow_wire, "_RETRY_S", 0.01)
    with LiveStore.open(str(tmp_path / "out")) as store:
        wire = Wire("kafka://x:1", cast("LiveStore", store), lambda *_: None, TRIGGER_MS)
        wire.start()
        deadline = time.monotonic() + PATIENCE_S
        while wire.is_alive() and len(calls) < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
        if is_waited_for:
            wire.check()
            assert len(calls) >= 3
        wire.stop()
        if not is_waited_for:
            assert len(calls) == 1
            with pytest.raises(type(error), match=str(error)):
                wire.check()
