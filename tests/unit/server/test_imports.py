"""Only imports of three libraries open a file after the broker has begun to serve."""

import re
import signal
import socket
import subprocess
import sys
import urllib.request
from contextlib import suppress
from importlib.machinery import SourceFileLoader
from importlib.util import find_spec
from pathlib import Path

from coterie.protocol.records import Compression
from tests.fuzz.corpus import frames
from tests.unit.server.process import ready, started
from tests.unit.server.produced import batch, produce_request
from tests.unit.server.running import PATIENCE_S, SocketClient
from tests.unit.server.test_disk_failures import create

# What the first compressed batch, consumer group and regular expression of a client import.
LIBRARIES = {
    *("cramjam", "cramjam.cramjam"),
    *("re2", "re2._re2"),
    *("xxhash", "xxhash._xxhash", "xxhash.version"),
}

# Uses all handles but one before the first use of each library.
FEW_HANDLES = """
import os, resource, sys
from coterie.coordinator.groups.metadata_hash import metadata_hash
from coterie.coordinator.patterns import Pattern
from coterie.coordinator.topic_image import TopicImage, TopicsImage
from coterie.protocol.compression import compress
from coterie.protocol.records import Compression
_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (64, most))
taken = []
try:
    while True:
        taken.append(os.dup(0))
except OSError:
    os.close(taken.pop())
assert not {"cramjam", "re2", "xxhash"} & set(sys.modules)
assert compress(Compression.ZSTD, b"x")
topics = TopicsImage({"t": TopicImage("t", bytes(16), 1)}, {})
assert metadata_hash(["t"], topics)
assert Pattern("a.*c").matches("abc")
"""

METRICS = re.compile(r"metrics on (http://\S+)\n")


def exercise(port: int) -> None:
    """Use every API in every version, each way of compression, and requests that make no sense."""
    with SocketClient(socket.create_connection(("127.0.0.1", port))) as client:
        create(client, "t")
        for compression in Compression:
            for transactional in (False, True):
                for producer in ((-1, -1, -1), (7, 0, 0)):
                    records = batch(
                        b"x" * 2000,
                        compression=compression,
                        producer=producer,
                        transactional=transactional,
                    )
                    client.call(produce_request(records), 9)
    # Half of these close their connection, so each gets one of its own, ten at a time.
    every = [*frames(), b"\0\0\0\1x", b"\0\0\0\x0c\x7f\xff\0\0\0\0\0\0\xff\xff\xff\xff"]
    for first in range(0, len(every), 10):
        connections = []
        for frame in every[first : first + 10]:
            connections.append(socket.create_connection(("127.0.0.1", port)))
            connections[-1].sendall(frame)
        for connection in connections:
            # The response does not matter; some requests have none, others are delayed.
            connection.settimeout(0.05)
            with suppress(OSError):
                connection.recv(1)
            connection.close()


def is_in_a_file_of_its_own(name: str) -> bool:
    """Return whether an import opens a file; in the compiled form few modules of ours do."""
    spec = find_spec(name) if name.startswith("coterie.") else None
    return spec is None or type(spec.loader) is SourceFileLoader


def test_nothing_else_is_read_from_files_while_serving(tmp_path: Path) -> None:
    begin, found = tmp_path / "begin", tmp_path / "found"
    found.touch()
    options = {
        "log.cleaner.backoff.ms": "10",
        "log.initial.task.delay.ms": "10",
        "log.retention.check.interval.ms": "50",
        "offsets.topic.num.partitions": "2",
        "offsets.topic.segment.bytes": "1048576",
    }
    command = (
        *(sys.executable, "-m", "tests.unit.server.import_probe", str(begin), str(found)),
        *("--port", "0", "--metrics-port", "0", "--data-dir", str(tmp_path / "data")),
        *(word for name, value in options.items() for word in ("--config", f"{name}={value}")),
    )
    with started(*command) as process:
        port, _ = ready(process)
        metrics = METRICS.fullmatch(process.stdout.readline()) if process.stdout else None
        assert metrics
        begin.touch()
        exercise(port)
        with urllib.request.urlopen(metrics[1], timeout=PATIENCE_S) as answer:
            assert b"coterie_" in answer.read()
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, errors
    files = {name for name in found.read_text().split() if is_in_a_file_of_its_own(name)}
    assert files - LIBRARIES == set()


def test_the_first_use_of_a_library_needs_one_handle() -> None:
    command = (sys.executable, "-c", FEW_HANDLES)
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
