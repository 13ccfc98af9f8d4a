"""The broker under test: our own server as a child process, or one that already runs.

Our server is started with the command line people use, so these tests also hold that command
line to its word. COTERIE_TEST_BOOTSTRAP names a running broker instead (a real Kafka, say), and
COTERIE_TEST_COMMAND another program that takes the same arguments as `coterie`.
"""

import os
import shlex
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import ClassVar

API_VERSIONS_KEY = 18
# A JVM broker behind COTERIE_TEST_COMMAND needs some ten seconds; ours a third of one.
START_LIMIT_S = 60.0
STOP_LIMIT_S = 30.0
# Kafka's own default of group.min.session.timeout.ms, which a broker we did not start will have.
KAFKA_MIN_SESSION_MS = 6000
# Short enough to make a test of a dead member quick, long enough to survive a busy machine.
OUR_MIN_SESSION_MS = 1000
OUR_SHORT_SESSION_MS = 2000

FAST_GROUPS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": str(OUR_MIN_SESSION_MS),
}


def free_port() -> int:
    """A port nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def ask_api_versions(bootstrap: str, timeout_s: float = 2.0) -> dict[int, tuple[int, int]]:
    """The version ranges a broker serves, asked with a hand-made ApiVersions v0 request.

    No client library and no code of ours takes part, so it can tell whether a server is up.
    Returns {api key: (lowest, highest version)}; OSError while nobody answers.
    """
    host, port = bootstrap.rsplit(":", 1)
    client_id = b"live-tests"
    body = struct.pack(">hhih", API_VERSIONS_KEY, 0, 1, len(client_id)) + client_id
    with socket.create_connection((host, int(port)), timeout=timeout_s) as connection:
        connection.sendall(struct.pack(">i", len(body)) + body)
        with connection.makefile("rb") as stream:
            prefix = stream.read(4)
            if len(prefix) < 4:
                raise ConnectionError(f"{bootstrap} closed the connection unanswered")
            frame = stream.read(struct.unpack(">i", prefix)[0])
    _correlation_id, error_code, count = struct.unpack_from(">ihi", frame)
    if error_code:
        raise ConnectionError(f"{bootstrap} answered ApiVersions v0 with error {error_code}")
    rows = (struct.unpack_from(">hhh", frame, 10 + 6 * row) for row in range(count))
    return {key: (lowest, highest) for key, lowest, highest in rows}


class Broker:
    """A broker address and what the tests may expect of it."""

    def __init__(self, bootstrap: str, *, own: bool, short_session_ms: int) -> None:
        self.bootstrap = bootstrap
        self.own = own
        self.short_session_ms = short_session_ms
        """The shortest session timeout that is safe to give a member that will be killed."""

    def serves(self, api_key: int) -> bool:
        """Whether the broker announces this API."""
        return api_key in ask_api_versions(self.bootstrap)


class BrokerProcess(Broker):
    """Our server as a child process that can be stopped, killed and started again in place."""

    running: ClassVar[set["BrokerProcess"]] = set()
    """All that run just now, so that the report of a failed test can quote them."""

    def __init__(self, data_dir: Path, config: dict[str, str]) -> None:
        self.port = free_port()
        super().__init__(f"127.0.0.1:{self.port}", own=True, short_session_ms=OUR_SHORT_SESSION_MS)
        self.data_dir = data_dir
        self.config = config
        self.output = data_dir.with_name(f"{data_dir.name}.output")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process id of the running server."""
        assert self._process is not None, "not started"
        return self._process.pid

    def command(self) -> list[str]:
        """The command line, as a user would type it."""
        beside_python = str(Path(sys.executable).with_name("coterie"))
        program = shlex.split(os.environ.get("COTERIE_TEST_COMMAND", beside_python))
        line = [*program, "serve", "--host", "127.0.0.1", "--port", str(self.port)]
        line += ["--data-dir", str(self.data_dir)]
        for name, value in self.config.items():
            line += ["--config", f"{name}={value}"]
        return line

    def start(self) -> float:
        """Start and wait for the first ApiVersions answer; returns the seconds it took."""
        assert self._process is None, "already started"
        began = time.monotonic()
        with self.output.open("ab") as output:
            self._process = subprocess.Popen(
                self.command(), stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL
            )
        while True:
            try:
                ask_api_versions(self.bootstrap)
            except OSError as error:
                if self._process.poll() is not None:
                    raise AssertionError(
                        f"the server ended with {self._process.returncode}: {self.tail()}"
                    ) from error
                if time.monotonic() - began > START_LIMIT_S:
                    self.kill()
                    raise AssertionError(
                        f"no answer within {START_LIMIT_S:g} s: {self.tail()}"
                    ) from error
                time.sleep(0.02)
            else:
                self.running.add(self)
                return time.monotonic() - began

    def stop(self) -> int:
        """SIGTERM, the polite end; returns the exit code."""
        return self._end(signal.SIGTERM)

    def kill(self) -> int:
        """SIGKILL, as the out-of-memory killer does it."""
        return self._end(signal.SIGKILL)

    def _end(self, with_signal: signal.Signals) -> int:
        process, self._process = self._process, None
        self.running.discard(self)
        if process is None:
            return 0
        process.send_signal(with_signal)
        try:
            return process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError(
                f"still running {STOP_LIMIT_S:g} s after {with_signal.name}: {self.tail()}"
            ) from None

    def tail(self, lines: int = 30) -> str:
        """The end of what the server wrote, for error messages."""
        text = self.output.read_text(errors="replace") if self.output.exists() else ""
        return "\n".join(text.splitlines()[-lines:])
