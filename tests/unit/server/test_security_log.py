"""The security log: durable before it is acknowledged, in order, rewritten, refused if damaged."""

import errno
import os
from functools import partial
from pathlib import Path

import pytest

from coterie.protocol.messages.security_records import (
    RemoveAccessControlEntryRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
    encode_security_record,
)
from coterie.security.credentials import Credentials
from coterie.server.broker import Broker
from coterie.server.environment import Environment
from coterie.server.logs.flusher import FlushMode
from coterie.server.security.security_log import GARBAGE_BYTES, SecurityLog
from coterie.storage.directory import DataDirectory
from coterie.storage.errors import CorruptLog, LogFailed
from coterie.storage.memory_filesystem import MemoryFileSystem
from coterie.storage.record_file import RecordFile
from coterie.storage.system_files import system_files
from coterie.storage.torn_tail import TailTrust
from tests.faulty_filesystem import FaultyFileSystem
from tests.unit.server.manual import COMMIT, NEVER, ManualEnvironment
from tests.unit.server.manual_loop import ManualLoop
from tests.unit.server.running import RunningBroker

PATH = "coterie.security-0"
INTERVAL = FlushMode(commit=False, interval_ms=50)


@pytest.fixture
def loop() -> ManualLoop:
    return ManualLoop()


def credential(user: str, iterations: int = 4096, salt: bytes = b"s") -> UserScramCredentialRecord:
    return UserScramCredentialRecord(
        name=user,
        mechanism=1,
        salt=salt,
        stored_key=b"stored",
        server_key=b"server",
        iterations=iterations,
    )


class Harness:
    """A security log on a file system, its users, and the results of its changes."""

    def __init__(self, loop: ManualLoop, flush: FlushMode = COMMIT) -> None:
        self.loop = loop
        self.environment: Environment = ManualEnvironment(loop)
        self.faulty = FaultyFileSystem(MemoryFileSystem())
        self.flush = flush
        self.results: list[tuple[str, Exception | None]] = []
        self.start()

    def start(self, trust: TailTrust = TailTrust.PROCESS_DIED) -> None:
        file = RecordFile(self.faulty, PATH, durable=self.flush.commit)
        disk = self.environment.workers("disk", 1)
        self.users = Credentials()
        self.log = SecurityLog(file, self.environment, disk, self.flush)
        self.log.add_store(self.users)
        self.file = file
        self.log.load(file.read(trust))

    def append(self, name: str, *records: UserScramCredentialRecord) -> None:
        self.log.append(list(records), lambda error: self.results.append((name, error)))

    def settle(self) -> None:
        self.loop.turn()
        while not self.log.idle:
            self.loop.turn()
        self.loop.turn()


@pytest.mark.parametrize("flush", [COMMIT, NEVER, INTERVAL])
def test_changes_hold_at_once_and_after_a_restart(loop: ManualLoop, flush: FlushMode) -> None:
    harness = Harness(loop, flush)
    harness.append("both", credential("alice"), credential("bob"))
    assert set(harness.users.users) == {"alice", "bob"}
    assert harness.results == [], "the answer waits for a turn at least"
    harness.log.append([RemoveUserScramCredentialRecord(name="bob", mechanism=1)], lambda _: None)
    harness.settle()
    assert harness.results == [("both", None)]
    harness.start()
    assert list(harness.users.records()) == [credential("alice")]


def test_a_change_is_answered_after_a_sync_of_file_and_name(loop: ManualLoop) -> None:
    harness = Harness(loop)
    harness.append("first", credential("alice"))
    harness.append("second", credential("bob"))
    harness.append("third", credential("carol"))
    harness.settle()
    assert [name for name, _ in harness.results] == ["first", "second", "third"]
    # The two that waited share a write and a sync.
    assert harness.faulty.calls["write"] == 2
    assert harness.faulty.calls["sync"] == 2
    assert harness.faulty.calls["sync_directory"] == 1


def test_without_commit_nothing_is_synced_before_it_is_due(loop: ManualLoop) -> None:
    harness = Harness(loop, INTERVAL)
    harness.append("first", credential("alice"))
    loop.turn()
    assert harness.results == [("first", None)]
    assert harness.faulty.calls["sync"] == 0
    loop.advance(51)
    harness.settle()
    assert harness.faulty.calls["sync"] == 1


@pytest.mark.parametrize("kind", ["write", "sync", "sync_directory"])
def test_after_an_error_nothing_is_acknowledged(loop: ManualLoop, kind: str) -> None:
    harness = Harness(loop)
    harness.faulty.fail_at(kind, 1, errno.ENOSPC)
    for name in ("first", "second", "third"):
        harness.append(name, credential(name))
    harness.settle()
    harness.append("later", credential("later"))
    harness.settle()
    assert [name for name, _ in harness.results] == ["first", "second", "third", "later"]
    assert all(isinstance(error, LogFailed) for _, error in harness.results)
    assert "later" not in harness.users.users


@pytest.mark.parametrize("flush", [COMMIT, NEVER, INTERVAL])
def test_garbage_is_dropped_and_changes_meanwhile_are_kept(
    loop: ManualLoop, flush: FlushMode
) -> None:
    harness = Harness(loop, flush)
    salt = bytes(100_000)
    for number in range(25):
        harness.append("", credential("alice", number, salt))
        harness.append("", credential("bob", number))
        harness.settle()
    assert harness.file.size_bytes < GARBAGE_BYTES
    for number in range(25, 30):
        harness.append("", credential("alice", number, salt))
        harness.append("", credential("carol", number))
    harness.settle()
    assert {error for _, error in harness.results} == {None}
    assert len(harness.results) == 60
    harness.start()
    assert list(harness.users.records()) == [
        credential("alice", 29, salt),
        credential("bob", 24),
        credential("carol", 29),
    ]
    assert harness.faulty.filesystem.list("") == [PATH]


@pytest.mark.parametrize("flush", [COMMIT, NEVER, INTERVAL])
def test_the_change_that_brings_a_rewrite_about_is_kept(loop: ManualLoop, flush: FlushMode) -> None:
    harness = Harness(loop, flush)
    salt = bytes(GARBAGE_BYTES)
    for number in range(2):
        harness.append("", credential("alice", number, salt))
        harness.settle()
    assert harness.file.size_bytes < 2 * GARBAGE_BYTES, "it is written anew"
    harness.start()
    assert list(harness.users.records()) == [credential("alice", 1, salt)]


def test_a_rewrite_that_fails_leaves_the_log_as_it_was(loop: ManualLoop) -> None:
    harness = Harness(loop)
    harness.append("", credential("alice", 0, bytes(2 * GARBAGE_BYTES)))
    harness.settle()
    harness.faulty.fail_at("create", 1, errno.ENOSPC)
    harness.append("", credential("alice", 1))
    harness.settle()
    harness.append("", credential("alice", 2))
    harness.settle()
    assert {error for _, error in harness.results} == {None}
    assert harness.file.size_bytes > 2 * GARBAGE_BYTES
    harness.start()
    assert list(harness.users.records()) == [credential("alice", 2)]


def test_a_rewrite_survives_a_crash_before_each_of_its_calls(loop: ManualLoop) -> None:
    for call in range(1, 7):
        harness = Harness(loop)
        harness.append("", credential("alice", 0, bytes(2 * GARBAGE_BYTES)))
        harness.settle()
        harness.append("", credential("alice", 1))
        harness.faulty.fail_from("writing", call)
        harness.settle()
        harness.faulty.fail_at("any", 0)
        harness.start()
        iterations = [each.iterations for each in harness.users.users["alice"].values()]
        acknowledged = harness.results[1:] == [("", None)]
        assert iterations == [1] or (iterations == [0] and not acknowledged)


def test_a_record_that_nothing_keeps_ends_the_start(loop: ManualLoop) -> None:
    harness = Harness(loop)
    rule = RemoveAccessControlEntryRecord(id=bytes(16))
    for value in (b"", b"\1\x0b\0", encode_security_record(rule)):
        with pytest.raises(CorruptLog, match="record 0"):
            harness.log.load([value])


def test_the_file_of_a_real_directory(tmp_path: Path) -> None:
    opened = partial(
        DataDirectory.open,
        system_files(),
        str(tmp_path),
        node_id=1,
        cluster_id="c",
        directory_id="d",
        durable=True,
    )
    directory = opened()
    assert directory.read_security_log() == []
    directory.security_log.append([b"value"], now_ms=0)
    directory.close()
    assert os.stat(tmp_path / PATH).st_mode & 0o777 == 0o600
    directory = opened()
    assert directory.topics == {}, "it is not a topic"
    assert directory.read_security_log() == [b"value"]
    directory.close()
    data = (tmp_path / PATH).read_bytes()
    (tmp_path / PATH).write_bytes(data[:-1])
    directory = opened()
    with pytest.raises(CorruptLog, match="the last stop was clean"):
        directory.read_security_log()
    directory.abandon()


def test_a_version_that_does_not_know_the_file_lets_it_be(tmp_path: Path) -> None:
    """Versions from before logins open the directory like this; they have no users and rules."""

    def add(broker: Broker) -> None:
        broker.security_log.append([credential("alice")], lambda _: None)

    with RunningBroker(data_dir=str(tmp_path), flush=COMMIT, prepare=add):
        pass
    before = (tmp_path / PATH).read_bytes()
    directory = DataDirectory.open(
        system_files(), str(tmp_path), node_id=1, cluster_id="c", directory_id="d", durable=True
    )
    assert PATH not in directory.topics
    directory.close()
    assert (tmp_path / PATH).read_bytes() == before
    with RunningBroker(data_dir=str(tmp_path), flush=COMMIT) as running:
        assert set(running.broker.credentials.users) == {"alice"}


def test_a_broker_with_a_damaged_log_does_not_start(tmp_path: Path) -> None:
    """[security/log-damage]"""

    def add(broker: Broker) -> None:
        broker.security_log.append([credential("alice")], lambda _: None)

    for flush in (COMMIT, NEVER):
        with RunningBroker(data_dir=str(tmp_path), flush=flush, prepare=add) as running:
            assert set(running.broker.credentials.users) == {"alice"}
    data = bytearray((tmp_path / PATH).read_bytes())
    data[90] ^= 1
    (tmp_path / PATH).write_bytes(data)
    with pytest.raises(CorruptLog, match=PATH):
        RunningBroker(data_dir=str(tmp_path)).__enter__()
