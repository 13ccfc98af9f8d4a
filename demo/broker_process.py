"""A broker as a child process, started with the command line that users type.

The demo and the live tests start their brokers with this class.
"""

import contextlib
import random
import shlex
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from coterie.address import Address

# Settings for short demonstrations and tests: members show up at once instead of being gathered for
# three seconds, and the session of a killed member can be short.
FAST_GROUPS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
}

# Below 32768, where the ports for outgoing connections begin on Linux; macOS uses those from 49152.
_PORTS = (20_000, 32_768)

_API_VERSIONS = 18
_POLL_INTERVAL_S = 0.02
_SHOWN_LINES = 30


class BrokerFailed(Exception):  # noqa: N818 - the name says what happened
    """The broker could not be started, ended by itself, or did not stop."""


def free_port() -> int:
    """Return a port on which nothing listens at the moment.

    It is not one of the ports that the kernel gives to outgoing connections. Among those, a client
    connection can take the port before the broker starts or while it restarts; a client can even
    be connected to itself, if the kernel chooses the port to which it connects as its own.
    """
    while True:
        port = random.randrange(*_PORTS)  # noqa: S311 - no secret
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def supported_versions(bootstrap: str, timeout_s: float = 2.0) -> dict[int, tuple[int, int]]:
    """Return the lowest and highest version of each API that a broker supports, by API key.

    The request is ApiVersions v0, encoded here and not by a client library or by our own codecs, so
    it works with every broker and proves that the broker responds.

    Raises:
        OSError: no broker responds.
    """
    client_id = b"demo"
    body = struct.pack(">hhih", _API_VERSIONS, 0, 1, len(client_id)) + client_id
    with (
        socket.create_connection(Address.parse(bootstrap), timeout=timeout_s) as connection,
        connection.makefile("rb") as stream,
    ):
        connection.sendall(struct.pack(">i", len(body)) + body)
        prefix = stream.read(4)
        if len(prefix) < 4:
            raise ConnectionError(f"{bootstrap} closed the connection without a response")
        frame = stream.read(struct.unpack(">i", prefix)[0])
    _correlation_id, error_code, count = struct.unpack_from(">ihi", frame)
    if error_code:
        raise ConnectionError(f"{bootstrap} responded to ApiVersions v0 with error {error_code}")
    rows = (struct.unpack_from(">hhh", frame, 10 + 6 * row) for row in range(count))
    return {api_key: (lowest, highest) for api_key, lowest, highest in rows}


class BrokerProcess:
    """A broker that can be stopped, killed and started again in place.

    Attributes:
        bootstrap: its address, HOST:PORT.
        data_dir: its data directory.
        config: its settings.
        output: the file with its standard output and standard error.
    """

    def __init__(
        self, data_dir: Path, config: Mapping[str, str], program: str | None = None
    ) -> None:
        """Choose a free port; nothing is started yet.

        Args:
            data_dir: the data directory; the output is written beside it.
            config: settings, as for --config.
            program: the command to run instead of the `coterie` of this environment.
        """
        self.port = free_port()
        self.bootstrap = f"127.0.0.1:{self.port}"
        self.data_dir = data_dir
        self.config = dict(config)
        self.output = data_dir.with_name(f"{data_dir.name}.output")
        self._program = program or shlex.quote(str(Path(sys.executable).with_name("coterie")))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process id of the running broker."""
        assert self._process is not None, "the broker is not running"
        return self._process.pid

    def command(self) -> list[str]:
        """Return the command line."""
        command = [*shlex.split(self._program), "serve"]
        command += ["--host", "127.0.0.1", "--port", str(self.port)]
        command += ["--data-dir", str(self.data_dir)]
        for name, value in self.config.items():
            command += ["--config", f"{name}={value}"]
        return command

    def start(self, limit_s: float = 30.0) -> float:
        """Start the broker and wait until it responds; return the seconds that it took.

        Raises:
            BrokerFailed: the program can't be run, ends, or does not respond.
        """
        assert self._process is None, "the broker is already running"
        began_s = time.monotonic()
        command = self.command()
        try:
            with self.output.open("ab") as output:
                self._process = subprocess.Popen(  # noqa: S603 - our own program
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    # Ctrl-C must not reach the broker: its parent decides how it ends.
                    process_group=0,
                )
        except OSError as error:
            raise BrokerFailed(f"{command[0]} can't be started: {error.strerror}.") from error
        while True:
            with contextlib.suppress(OSError):
                supported_versions(self.bootstrap)
                return time.monotonic() - began_s
            self.check()
            if time.monotonic() - began_s > limit_s:
                self.kill()
                raise BrokerFailed(
                    f"The broker did not respond within {limit_s:g} s.\n{self.tail()}"
                )
            time.sleep(_POLL_INTERVAL_S)

    def check(self) -> None:
        """Check that the broker is running.

        Raises:
            BrokerFailed: it has ended by itself.
        """
        code = None if self._process is None else self._process.poll()
        if code is not None:
            raise BrokerFailed(f"The broker ended with exit code {code}.\n{self.tail()}")

    def stop(self, limit_s: float = 30.0) -> int:
        """End the broker with SIGTERM and return its exit code.

        Raises:
            BrokerFailed: it was still running at the limit, and was killed.
        """
        return self._end(signal.SIGTERM, limit_s)

    def kill(self) -> int:
        """End the broker with SIGKILL, as the kernel does when memory runs out."""
        return self._end(signal.SIGKILL, 30.0)

    def _end(self, with_signal: signal.Signals, limit_s: float) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        process.send_signal(with_signal)
        try:
            return process.wait(limit_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise BrokerFailed(
                f"The broker was still running {limit_s:g} s after {with_signal.name}.\n"
                f"{self.tail()}"
            ) from None

    def tail(self, lines: int = _SHOWN_LINES) -> str:
        """Return the end of the broker's output, for error messages."""
        text = self.output.read_text(errors="replace") if self.output.exists() else ""
        return "\n".join(["Its last output:", *text.splitlines()[-lines:]]) if text else ""
