"""The demo's own server: a free port, a temporary data directory, gone at the end."""

import contextlib
import shlex
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

API_VERSIONS_KEY = 18
# Ours takes a third of a second; a machine that needs this long has another trouble.
START_LIMIT_S = 30.0
STOP_LIMIT_S = 10.0

SETTINGS = {
    # Members show up at once instead of being gathered for three seconds.
    "group.initial.rebalance.delay.ms": "0",
    # A killed member is noticed within the demo.
    "group.min.session.timeout.ms": "1000",
}


class DemoError(Exception):
    """What went wrong and what to do about it, in one sentence each."""


@dataclass(frozen=True)
class Stage:
    """Where the demo performs."""

    bootstrap: str
    where: str
    session_timeout_ms: int
    check: Callable[[], None] = lambda: None
    """Raises DemoError when the broker is gone for good."""


def free_port() -> int:
    """A port nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answers(bootstrap: str) -> bool:
    """Whether a broker answers ApiVersions there."""
    host, port = bootstrap.rsplit(":", 1)
    request = struct.pack(">hhih", API_VERSIONS_KEY, 0, 1, 4) + b"demo"
    try:
        with socket.create_connection((host, int(port)), timeout=1) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            return len(connection.recv(8)) > 0
    except OSError:
        return False


class Server:
    """Our server as a child process."""

    def __init__(self, program: str | None, directory: Path) -> None:
        words = (
            shlex.split(program) if program else [str(Path(sys.executable).with_name("coterie"))]
        )
        port = free_port()
        self.bootstrap = f"127.0.0.1:{port}"
        self._log = directory / "server.log"
        line = [*words, "serve", "--host", "127.0.0.1", "--port", str(port)]
        line += ["--data-dir", str(directory / "data")]
        for name, value in SETTINGS.items():
            line += ["--config", f"{name}={value}"]
        began = time.monotonic()
        try:
            with self._log.open("wb") as output:
                self._process = subprocess.Popen(  # noqa: S603 - our own program
                    line,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    # Ctrl-C is for the demo alone; it ends its server itself.
                    process_group=0,
                )
        except OSError as error:
            raise DemoError(
                f"cannot start {line[0]}: {error.strerror}. Run `make setup` first."
            ) from error
        self._wait_until_it_answers(began + START_LIMIT_S)
        self.start_s = time.monotonic() - began

    def _wait_until_it_answers(self, deadline: float) -> None:
        while not answers(self.bootstrap):
            self.check()
            if time.monotonic() > deadline:
                self.stop()
                raise DemoError(f"the server does not answer. {self._last_words()}")
            time.sleep(0.02)

    def check(self) -> None:
        """DemoError, with the server's last words, if it has ended."""
        code = self._process.poll()
        if code is not None:
            raise DemoError(f"the server ended with code {code}. {self._last_words()}")

    def _last_words(self) -> str:
        lines = self._log.read_text(errors="replace").splitlines()[-15:]
        return "\n".join(["Its last words:", *lines]) if lines else "It wrote nothing."

    def stop(self) -> None:
        """SIGTERM, and SIGKILL if that is not heard."""
        self._process.terminate()
        try:
            self._process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@contextlib.contextmanager
def serving(program: str | None) -> Iterator[Server]:
    """Run the server for the time of a with block."""
    with tempfile.TemporaryDirectory(prefix="coterie-demo-") as directory:
        server = Server(program, Path(directory))
        try:
            yield server
        finally:
            server.stop()
