"""Run the hunt: `python -m tests.soak.turns`, or `make turns`."""

import json
import os
import resource
import shlex
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click

from tests.live.broker_process import BrokerProcess
from tests.soak.turns.client import HonestMember
from tests.soak.turns.timed import SOCKET_VARIABLE, LongestTurns
from tests.soak.turns.verbs import TIMED_OUT_EVERY_MS, Sizes, Verb, Verbs

# What the design promises, per turn of the event loop.
LIMIT_MS = 20.0
# Work that goes on after the answer: tombstones, the removal of files, records of the journal.
_SETTLE_S = 0.3

# The program of the server.
SERVER = "tests.soak.turns.timed"

CONFIG = {
    # The watchdog looks for a culprit after half of this time.
    "event.loop.warning.ms": "12",
    "group.initial.rebalance.delay.ms": "0",
    "message.max.bytes": str(100 << 20),
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": str(TIMED_OUT_EVERY_MS),
}


class Row(NamedTuple):
    """The longest turn of one verb.

    Attributes:
        verb: what was done.
        longest: the longest turn.
        waited_ms: the longest wait of the honest member for a heartbeat.
        took_s: how long the verb took.
        answer: its size, or the first error in it.
    """

    verb: str
    longest: LongestTurns
    waited_ms: float
    took_s: float
    answer: str


class TimedBroker(BrokerProcess):
    """A server that measures its turns."""

    def __init__(self, directory: Path, *, compiled: bool = False) -> None:
        super().__init__(directory / "data", CONFIG)
        self._socket = directory / "turns"
        environment = [f"{SOCKET_VARIABLE}={self._socket}"]
        if compiled:
            environment.append(f"PYTHONPATH={Path('build/compiled').absolute()}")
        program = [sys.executable, "-m", SERVER]
        self._program = shlex.join(["env", *environment, *program])

    def longest(self) -> LongestTurns:
        """Return the longest turn since the last question."""
        with socket.socket(socket.AF_UNIX) as asking:
            asking.connect(str(self._socket))
            return LongestTurns(**json.loads(asking.makefile().read()))


def hunt(
    directory: Path, sizes: Sizes, wanted: Callable[[str], bool], *, compiled: bool = False
) -> Iterator[Row]:
    """Run the verbs on a new server; what fills it runs always.

    Args:
        directory: for the data.
        sizes: of the server and of requests.
        wanted: which verbs, by their names.
        compiled: run the compiled form, which is in build/compiled.
    """
    broker = TimedBroker(directory, compiled=compiled)
    broker.start()
    try:
        member, verbs = HonestMember(broker.port), Verbs(broker.port, sizes)
        try:
            for verb in verbs.all():
                if verb.is_needed or wanted(verb.name):
                    yield _row(broker, member, verb)
                    broker.check()
        finally:
            verbs.close()
            member.stop()
    finally:
        broker.stop(limit_s=120)


def _row(broker: TimedBroker, member: HonestMember, verb: Verb) -> Row:
    broker.longest(), member.longest_ms()
    began_s = time.monotonic()
    answer = verb.run()
    took_s = time.monotonic() - began_s
    time.sleep(_SETTLE_S)
    return Row(verb.name, broker.longest(), member.longest_ms(), took_s, answer)


def line(row: Row) -> str:
    """Return a line of the table; a turn over the limit is marked."""
    longest = row.longest
    culprit = f"; {longest.culprit}" if longest.culprit else ""
    mark = "*" if longest.cpu_ms > LIMIT_MS else " "
    return (
        f"{row.verb:<43.43}{mark}{longest.wall_ms:>8.1f}{longest.cpu_ms:>8.1f}"
        f"{longest.collecting_ms:>7.1f}{row.waited_ms:>9.1f}{row.took_s:>8.2f}"
        f"  {row.answer}{culprit}"
    )


HEADER = (
    f"{'verb':<44}{'turn ms':>8}{'CPU ms':>8}{'GC ms':>7}{'beat ms':>9}{'s':>8}"
    "  answer; culprit of a long turn"
)


@click.command()
@click.option("--scale", default=1.0, help="A share of the limits, such as 0.1.", show_default=True)
@click.option("--verb", "words", multiple=True, help="Only verbs with this word in their name.")
@click.option("--compiled", is_flag=True, help="The compiled form, which is in build/compiled.")
@click.option("--wall", is_flag=True, help="Judge by the clock: on a machine with nothing else.")
@click.option("--json", "as_json", is_flag=True, help="Print a line of JSON for each verb.")
@click.option("--directory", type=click.Path(path_type=Path), help="Where the server's data is.")
def main(
    scale: float,
    words: tuple[str, ...],
    compiled: bool,
    wall: bool,
    as_json: bool,
    directory: Path | None,
) -> None:
    """Run each verb with its largest request on a server at its limits; print the longest turns.

    The exit code is 1 if one used more than 20 ms of a processor. The member's wait for a heartbeat
    (beat) includes what other processes of the machine take.
    """
    _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, most_files))

    def wanted(name: str) -> bool:
        return not words or any(word.lower() in name.lower() for word in words)

    if not as_json:
        print(HEADER)
    long = 0
    with tempfile.TemporaryDirectory(prefix="coterie-turns-", dir=directory) as place:
        for row in hunt(Path(place), Sizes().scaled(scale), wanted, compiled=compiled):
            long += (row.longest.wall_ms if wall else row.longest.cpu_ms) > LIMIT_MS
            print(json.dumps(_flat(row)) if as_json else line(row), flush=True)
    if not as_json:
        load = os.getloadavg()[0]
        print(f"turns: {long} over {LIMIT_MS:g} ms; load of the machine at the end {load:.1f}")
    sys.exit(1 if long else 0)


def _flat(row: Row) -> dict[str, Any]:
    values = row._asdict()
    return {**values, "longest": row.longest._asdict()}


if __name__ == "__main__":
    main()
