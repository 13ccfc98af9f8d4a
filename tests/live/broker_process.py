"""The broker under test: our own server as a child process, or a broker that is already running.

Our server is started with the command line that users type, so these tests cover it too. With
COTERIE_TEST_BOOTSTRAP the tests use a running broker, such as a real Kafka. With
COTERIE_TEST_COMMAND they start another program that takes the same arguments as `coterie`, and with
COTERIE_TEST_START_S they wait longer for it.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import coterie.processes
from coterie.address import Address
from coterie.processes import FAST_GROUPS, first_answer
from coterie.protocol.frames import decode_response
from coterie.protocol.messages.api_versions import ApiVersionsResponse

__all__ = ["FAST_GROUPS", "Broker", "BrokerProcess"]

# A JVM broker in COTERIE_TEST_COMMAND needs about ten seconds to start, ours less than one.
START_LIMIT_S = float(os.environ.get("COTERIE_TEST_START_S", "60"))
# Of consumer groups (KIP-848): there the broker decides, and not the member.
FAST_CONSUMER_GROUPS = {
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "20000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.assignment.interval.ms": "100",
}
# Kafka's default of group.min.session.timeout.ms, which a running broker will have.
KAFKA_MIN_SESSION_MS = 6000
OUR_MIN_SESSION_MS = int(FAST_GROUPS["group.min.session.timeout.ms"])
# Short, so that tests with a dead member are short; long enough for heartbeats on a busy machine.
OUR_SHORT_SESSION_MS = 2000


class Broker:
    """A broker and what the tests may expect of it.

    Attributes:
        bootstrap: its address, HOST:PORT.
        own: whether it is our server, started by these tests.
        short_session_ms: the shortest session timeout for a member that the test will kill.
    """

    def __init__(self, bootstrap: str, *, own: bool, short_session_ms: int) -> None:
        self.bootstrap = bootstrap
        self.own = own
        self.short_session_ms = short_session_ms

    def serves(self, api_key: int) -> bool:
        """Return whether the broker supports an API."""
        answer = first_answer(Address.parse(self.bootstrap), limit_s=START_LIMIT_S)
        _, response = decode_response(ApiVersionsResponse, answer, 0)
        return api_key in {each.api_key for each in response.api_keys}


class BrokerProcess(coterie.processes.BrokerProcess, Broker):
    """Our server as a child process that can be stopped, killed and started again in place.

    Attributes:
        running: all that are running, so that the report of a failed test can show their output.
    """

    running: ClassVar[set["BrokerProcess"]] = set()

    def __init__(
        self,
        data_dir: Path,
        config: Mapping[str, str],
        open_files: int | None = None,
        brokers: int = 1,
    ) -> None:
        """Describe a broker.

        Args:
            data_dir: its data directory.
            config: its settings.
            open_files: how many files it may have open.
            brokers: how many brokers the process has; the others take the ports after the first.
        """
        super().__init__(data_dir, config, os.environ.get("COTERIE_TEST_COMMAND"))
        self._open_files = open_files
        self._brokers = brokers
        Broker.__init__(self, self.bootstrap, own=True, short_session_ms=OUR_SHORT_SESSION_MS)

    def command(self) -> list[str]:
        """Return the command line, behind the limit that it runs under."""
        command = super().command()
        if self._brokers > 1:
            command += ["--brokers", str(self._brokers)]
        if self._open_files is not None:
            limit = f'ulimit -n {self._open_files} && exec "$@"'
            command = ["bash", "-c", limit, "bash", *command]
        return command

    def start(self, limit_s: float = START_LIMIT_S) -> float:
        """Start the broker and wait until it responds; return the seconds that it took."""
        start_s = super().start(limit_s)
        self.running.add(self)
        return start_s

    def stop(self, limit_s: float = 30.0) -> int:
        """End the broker with SIGTERM and return its exit code."""
        self.running.discard(self)
        return super().stop(limit_s)

    def kill(self) -> int:
        """End the broker with SIGKILL."""
        self.running.discard(self)
        return super().kill()
