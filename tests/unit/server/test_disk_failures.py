"""A disk that is full, read-only, broken or removed: log lines, errors, and no lost records.

The tests run a broker over a file system that fails on purpose, and real processes whose directory
is removed or whose files may not grow.

Rules: [coordinator/unload].
"""

import errno
import os
import shutil
import signal
import socket
import threading
from pathlib import Path

import pytest

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsRequestTopic
from coterie.server.logs.flusher import FlushMode
from coterie.server.logs.maintenance import DIRECTORY_CHECK_S
from coterie.storage.errors import (
    CorruptLog,
    LogFailed,
    OutOfHandles,
    describe_error,
    is_shortage,
    remedy_for,
)
from coterie.storage.memory_filesystem import MemoryFile, MemoryFileSystem
from tests.faulty_filesystem import FaultyFileSystem
from tests.unit.server.groups import commit, committed
from tests.unit.server.manual import COMMIT, NEVER, Client, logged, make_broker, wait_for_disk
from tests.unit.server.process import COMMAND, ready, run, serving, started
from tests.unit.server.produced import batch, produce, produce_request
from tests.unit.server.running import PATIENCE_S, SocketClient

# Errors of a write or a sync, and words of the remedy in the log.
CAUSES = [
    (errno.ENOSPC, "make room"),
    (errno.EDQUOT, "quota"),
    (errno.EROFS, "read-only"),
    (errno.EIO, "dmesg"),
    (errno.ENOENT, "--data-dir"),
    (errno.ESTALE, "--data-dir"),
    (errno.EFBIG, "ulimit -f"),
    (errno.EACCES, "user"),
    (errno.EPERM, "user"),
    (errno.ENOTTY, "system's log"),
]
# Errors of opening a file, which are no reason to stop a log.
SHORTAGES = [(errno.EMFILE, "ulimit -n"), (errno.ENFILE, "fs.file-max")]


class TestTexts:
    @pytest.mark.parametrize(("number", "word"), CAUSES)
    def test_each_error_has_a_remedy(self, number: int, word: str) -> None:
        error = OSError(number, os.strerror(number), "/data/t-0/0.log")
        for each in (error, LogFailed("/data/t-0", error)):
            assert word in remedy_for(each)
            assert remedy_for(each).endswith("restart the broker") or number == errno.EIO
            assert describe_error(each) == f"{os.strerror(number)}: /data/t-0/0.log"
            assert not is_shortage(each)

    @pytest.mark.parametrize(("number", "word"), SHORTAGES)
    def test_shortage_needs_no_restart(self, number: int, word: str) -> None:
        error = OSError(number, os.strerror(number), "/data/t-0/0.log")
        for each in (error, OutOfHandles("/data/t-0", error)):
            assert word in remedy_for(each)
            assert "restart" not in remedy_for(each)
            assert describe_error(each) == f"{os.strerror(number)}: /data/t-0/0.log"
            assert is_shortage(each)

    def test_remedy_for_damage_begins_with_a_copy(self) -> None:
        error = CorruptLog("/data/t-0/0.log", 17, "checksum")
        assert "keep a copy" in remedy_for(error)
        assert describe_error(error) == "/data/t-0/0.log: damaged at byte 17: checksum"


@pytest.mark.parametrize(("number", "word"), CAUSES)
@pytest.mark.parametrize("kind", ["write", "sync"])
class TestOneLogFails:
    """The rule [log/fail-stop]."""

    def test_commit_to_a_failed_log(self, kind: str, number: int, word: str) -> None:
        faulty = FaultyFileSystem(MemoryFileSystem())
        client = Client(make_broker(flush=COMMIT, filesystem=faulty))
        broker = client.broker
        broker.controller.create("t", 1, {})
        index = broker.coordinator.partition_for("g")
        faulty.fail_at(kind, 1, number)
        client.send(commit(7), 8)
        wait_for_disk(client)
        ((_, answer),) = client.answers()
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
        (line,) = logged(broker, "group partition failed")
        assert line["partition"] == index
        (line,) = logged(broker, "log failed")
        directory = f"memory/__consumer_offsets-{index}"
        assert line["directory"] == directory
        assert line["file"] == f"{directory}/{0:020d}.log"
        assert word in line["remedy"]
        # It stays stopped although the disk works again; other partitions continue.
        client.send(commit(8), 8)
        wait_for_disk(client)
        ((_, answer),) = client.answers()
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
        other = next(
            name for name in map(str, range(99)) if broker.coordinator.partition_for(name) != index
        )
        client.send(commit(9, group_id=other), 8)
        wait_for_disk(client)
        ((_, answer),) = client.answers()
        assert answer.topics[0].partitions[0].error_code == 0
        assert not broker.fatal.done()
        broker.flusher.stop()

    def test_produce_to_a_failed_log(self, kind: str, number: int, word: str) -> None:
        faulty = FaultyFileSystem(MemoryFileSystem())
        client = Client(make_broker(flush=COMMIT, filesystem=faulty))
        broker = client.broker
        broker.controller.create("t", 2, {})
        faulty.fail_at(kind, 1, number)
        for _ in range(2):
            client.send(produce_request(batch(b"a")), 9)
            wait_for_disk(client)
            ((_, answer),) = client.answers()
            refused = answer.responses[0].partition_responses[0]
            assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert refused.base_offset == -1
        (line,) = logged(broker, "log failed")
        assert (line["directory"], word in line["remedy"]) == ("memory/t-0", True)
        client.send(produce_request(batch(b"a"), partition=1), 9)
        wait_for_disk(client)
        ((_, answer),) = client.answers()
        assert answer.responses[0].partition_responses[0].error_code == 0
        broker.flusher.stop()


def test_acknowledged_commits_survive_a_full_disk() -> None:
    filesystem = MemoryFileSystem()
    for n in range(1, 12):
        faulty = FaultyFileSystem(filesystem)
        client = Client(make_broker(filesystem=faulty))
        if n == 1:
            client.broker.controller.create("t", 1, {})
        before = committed(client)[0]
        faulty.fail_at("write", n, errno.ENOSPC, torn_bytes=20)
        acknowledged = before
        for offset in range(before + 1, before + 20):
            answer = client.call(commit(offset), 8)
            if answer.topics[0].partitions[0].error_code:
                break
            acknowledged = offset
        assert faulty.failed == 1, "canary: the disk was full once"
        faulty.fail_at("", 0)
        client.broker._data.close()
        again = Client(make_broker(filesystem=filesystem))
        assert committed(again)[0] == acknowledged
        again.broker._data.close()


class TestDirectoryLost:
    """Another directory, with a lock file of its own, replaces that of the broker."""

    def replace_directory(self, client: Client, filesystem: MemoryFileSystem) -> None:
        filesystem.remove("memory/.lock")
        filesystem.create("memory/.lock")
        client.loop.advance(int(DIRECTORY_CHECK_S * 1_000))

    @pytest.mark.parametrize("flush", [NEVER, COMMIT])
    def test_broker_ends_and_acknowledges_nothing_more(self, flush: FlushMode) -> None:
        filesystem = MemoryFileSystem()
        client = Client(make_broker(flush=flush, filesystem=filesystem))
        broker = client.broker
        broker.controller.create("t", 2, {})
        broker.maintenance.start()
        client.send(produce_request(batch(b"a")), 9)
        wait_for_disk(client)
        ((_, answer),) = client.answers()
        assert answer.responses[0].partition_responses[0].error_code == 0
        client.loop.advance(int(DIRECTORY_CHECK_S * 3_000))
        assert not broker.fatal.done()

        self.replace_directory(client, filesystem)
        assert "memory is lost" in broker.fatal.result()
        (line,) = logged(broker, "data directory lost")
        assert line["directory"] == "memory"
        assert "--data-dir" in line["remedy"]
        names = set(filesystem.list("memory"))
        for partition in (0, 1):
            refused = produce(client, batch(b"b"), partition=partition)
            assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        answer = client.call(commit(7), 8)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
        broker.maintenance.stop()
        broker._data.close()
        # Nothing is written into the other directory, not even the mark of a clean stop.
        assert set(filesystem.list("memory")) == names
        broker.flusher.stop()

    def test_requests_that_wait_for_the_disk_are_answered_with_an_error(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        filesystem = MemoryFileSystem()
        client = Client(make_broker(flush=COMMIT, filesystem=filesystem))
        broker = client.broker
        broker.controller.create("t", 1, {})
        broker.maintenance.start()
        go_on = threading.Event()
        sync_file = MemoryFile.sync

        def slowly(file: MemoryFile) -> None:
            if threading.current_thread().name == "coterie-flusher":
                assert go_on.wait(PATIENCE_S)
            sync_file(file)

        monkeypatch.setattr(MemoryFile, "sync", slowly)
        client.send(produce_request(batch(b"a")), 9)
        client.loop.turn()
        assert client.answers() == []
        self.replace_directory(client, filesystem)
        ((_, answer),) = client.answers()
        refused = answer.responses[0].partition_responses[0]
        assert (refused.error_code, refused.base_offset) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
        # The sync itself succeeds, but is not reported as a success.
        go_on.set()
        wait_for_disk(client)
        assert client.answers() == []
        broker.flusher.stop()


class TestRealDirectories:
    @pytest.mark.parametrize("flush", ["never", "commit"])
    def test_server_ends_when_its_directory_is_removed(self, tmp_path: Path, flush: str) -> None:
        directory = tmp_path / "data"
        with serving("--data-dir", str(directory), "--flush", flush) as process:
            port, _ = ready(process)
            shutil.rmtree(directory)
            assert process.wait(PATIENCE_S) == 1
            _, errors = process.communicate()
        assert "data directory lost" in errors
        assert str(directory) in errors
        assert "put it back" in errors
        assert not directory.exists()
        assert port

    def test_directory_in_place_of_the_lost_one_is_not_written(self, tmp_path: Path) -> None:
        directory, moved = tmp_path / "data", tmp_path / "moved"
        with serving("--data-dir", str(directory), "--flush", "never") as process:
            ready(process)
            directory.rename(moved)
            shutil.copytree(moved, directory)
            before = {path: path.stat().st_mtime_ns for path in directory.rglob("*")}
            assert process.wait(PATIENCE_S) == 1
        assert {path: path.stat().st_mtime_ns for path in directory.rglob("*")} == before

    def test_file_size_limit_stops_the_partition(self, tmp_path: Path) -> None:
        """With RLIMIT_FSIZE the kernel refuses a write after a part of it (EFBIG)."""
        directory = tmp_path / "data"
        limited = ("bash", "-c", 'ulimit -f 256 && exec "$@"', "bash")
        options = ("--port", "0", "--data-dir", str(directory), "--flush", "never")
        with started(*limited, *COMMAND, *options) as process:
            port, _ = ready(process)
            acknowledged = 0
            with SocketClient(socket.create_connection(("127.0.0.1", port))) as client:
                create(client, "t")
                while True:
                    request = produce_request(batch(b"x" * 50_000))
                    answer = client.call(request, 9).responses[0].partition_responses[0]
                    if answer.error_code:
                        break
                    acknowledged += 1
                    assert acknowledged < 10
                assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
                assert acknowledged > 2
            process.send_signal(signal.SIGTERM)
            _, errors = process.communicate(timeout=PATIENCE_S)
        assert "ulimit -f" in errors
        assert "t-0" in errors
        # Without the limit all acknowledged records are there.
        with serving("--data-dir", str(directory), "--flush", "never") as again:
            port, _ = ready(again)
            with SocketClient(socket.create_connection(("127.0.0.1", port))) as client:
                request = produce_request(batch(b"y"))
                answer = client.call(request, 9).responses[0].partition_responses[0]
                assert (answer.error_code, answer.base_offset) == (0, acknowledged)

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
    def test_directory_without_write_permission(self, tmp_path: Path) -> None:
        directory = tmp_path / "data"
        directory.mkdir(mode=0o500)
        result = run("--data-dir", str(directory), "--port", "0")
        assert result.returncode == 1
        assert "can't be written: Permission denied" in result.stderr


def create(client: SocketClient, topic: str, partitions: int = 1) -> None:
    asked = CreateTopicsRequestTopic(name=topic, num_partitions=partitions, replication_factor=1)
    request = CreateTopicsRequest(topics=[asked], timeout_ms=1000)
    assert client.call(request, 5).topics[0].error_code == 0
