"""The hunt on one server, and its rows."""

import json
import os
import shlex
import shutil
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from coterie.processes import ProcessFailed
from tests.live.broker_process import START_LIMIT_S, BrokerProcess
from tests.soak.turns.answers import description, most
from tests.soak.turns.client import HonestMember
from tests.soak.turns.documented import DOCUMENTED
from tests.soak.turns.session import Session, Sizes, Verb
from tests.soak.turns.timed import SOCKET_VARIABLE, LongestTurns
from tests.soak.turns.transactions import TIMED_OUT_EVERY_MS
from tests.soak.turns.verbs import verbs

# What the design promises, per turn of the event loop.
LIMIT_MS = 20.0
# Work that goes on after the answer: tombstones, the removal of files, records of the journal.
_SETTLE_S = 0.3
# A server with so many topics ends with a checkpoint of each.
_STOP_LIMIT_S = 120.0

_ROOT = Path(__file__).parents[3]
_COMPILED = _ROOT / "build/compiled"

# The program of the server.
SERVER = "tests.soak.turns.timed"

CONFIG = {
    # The watchdog looks for a culprit after half of this time.
    "event.loop.warning.ms": "12",
    "group.initial.rebalance.delay.ms": "0",
    # All connections come from one address; beside the idle ones there are those of the verbs.
    "max.connections.per.ip": "10000",
    "message.max.bytes": str(100 << 20),
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": str(TIMED_OUT_EVERY_MS),
}


class Row(NamedTuple):
    """The longest turn of one verb.

    Attributes:
        verb: what was done.
        longest: the longest turns.
        beat_ms: the longest wait of the honest member for a heartbeat.
        took_s: how long the verb took.
        answer: what was answered, how often.
        code: the error code of most of the answer, and `expected` what it should be.
    """

    verb: str
    longest: LongestTurns
    beat_ms: float
    took_s: float
    answer: str
    code: str
    expected: str

    @property
    def is_long(self) -> bool:
        """Whether a turn used more than the limit."""
        return self.longest.cpu_ms > LIMIT_MS

    @property
    def reason(self) -> str:
        """The documented reason of a long turn, or ""."""
        documented = DOCUMENTED.get(self.verb)
        known = documented is not None and self.longest.cpu_ms <= documented.most_ms
        return documented.reason if self.is_long and documented and known else ""

    @property
    def finding(self) -> str:
        """What is wrong, or ""."""
        if self.code != self.expected:
            return f"answered {self.code}, expected {self.expected}"
        if self.is_long and not self.reason:
            return f"a turn of {self.longest.cpu_ms:.1f} ms of a processor"
        return ""


class TimedBroker(BrokerProcess):
    """A server that measures its turns."""

    def __init__(
        self,
        directory: Path,
        server: str,
        *,
        compiled: bool = False,
        config: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        super().__init__(directory / "data", {**CONFIG, **config})
        self._socket = directory / "turns"
        # -P: the pure form in the working directory must not come before the compiled one.
        program = [sys.executable, "-P", "-m", server]
        paths = [_COMPILED, _ROOT] if compiled else [_ROOT]
        environment = [
            f"{SOCKET_VARIABLE}={self._socket}",
            f"PYTHONPATH={os.pathsep.join(map(str, paths))}",
        ]
        self._program = shlex.join(["env", *environment, *program])
        self._compiled = compiled

    def start(self, limit_s: float = START_LIMIT_S) -> float:
        """Start the server and wait until it measures, which is after its first answer."""
        took_s = super().start(limit_s)
        while True:
            try:
                self.asked()
            except (FileNotFoundError, ConnectionRefusedError):
                self.check()
                time.sleep(0.01)
            else:
                break
        maps = Path(f"/proc/{self.pid}/maps")
        if self._compiled and maps.exists() and str(_COMPILED) not in maps.read_text():
            raise ProcessFailed(f"The server does not run what is in {_COMPILED}.")
        return took_s

    def longest(self) -> LongestTurns:
        """Return the longest turns since the last question."""
        return LongestTurns(**self.asked())

    def asked(self) -> Any:
        """Return the line of JSON that the server answers on its socket."""
        with socket.socket(socket.AF_UNIX) as asking:
            asking.connect(str(self._socket))
            return json.loads(asking.makefile().read())


def hunt(
    directory: Path,
    sizes: Sizes,
    wanted: Callable[[str], bool],
    *,
    compiled: bool = False,
    log: Path | None = None,
) -> Iterator[Row]:
    """Run the verbs on a new server; what fills it runs always.

    Args:
        directory: for the data.
        sizes: of the server and of requests.
        wanted: which verbs, by their names.
        compiled: run the compiled form, which is in build/compiled.
        log: where the server's output is kept.
    """
    broker = TimedBroker(directory, SERVER, compiled=compiled)
    broker.start()
    try:
        member = HonestMember(broker.port)
        session = Session(broker.port, sizes, broker.data_dir)
        try:
            for verb in verbs(session):
                if verb.is_needed or wanted(verb.name):
                    yield _row(broker, member, verb)
                    broker.check()
        finally:
            session.close()
            member.stop()
    finally:
        broker.stop(limit_s=_STOP_LIMIT_S)
        if log is not None:
            shutil.copy(broker.output, log)


def _row(broker: TimedBroker, member: HonestMember, verb: Verb) -> Row:
    broker.longest(), member.longest_ms()
    began_s = time.monotonic()
    answers = verb.run()
    took_s = time.monotonic() - began_s
    time.sleep(_SETTLE_S)
    longest, beat_ms = broker.longest(), member.longest_ms()
    codes = answers.codes()
    return Row(verb.name, longest, beat_ms, took_s, description(codes), most(codes), verb.expected)
