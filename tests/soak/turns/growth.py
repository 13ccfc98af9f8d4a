"""How the cost of a verb grows with the sizes: a verb that costs the square is found.

Each verb is run on two small servers, of which one has twice of everything and gets requests twice
as large. So a verb that costs as much for each element costs twice as many steps, and one that
looks at every group for each element four times as many.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tests.soak.turns.answers import description, most
from tests.soak.turns.hunt import TimedBroker
from tests.soak.turns.session import Session, Sizes, Verb
from tests.soak.turns.verbs import verbs

# Steps that are too few to tell: beginnings of requests, timers of the server.
FEW_STEPS = 20_000
# Between 2 and 4, with room for what is divided by time and so is not the same in each run.
LIMIT = 2.8
# A verb has ended when the threads of the server slept for so long, but for timers, which take a
# few steps. A thread that waits for a processor does not sleep, so a busy machine ends no verb.
_QUIET_S = 0.03
_LOOKS = 6
_MOST_QUIET_S = 60.0
_IDLE_STEPS = 500

COUNTING_SERVER = "tests.soak.turns.counted"

# What the server does by itself is not what a verb costs.
_CONFIG = dict.fromkeys(
    (
        "log.cleaner.backoff.ms",
        "log.flush.offset.checkpoint.interval.ms",
        "log.retention.check.interval.ms",
        "offsets.retention.check.interval.ms",
        "producer.id.expiration.check.interval.ms",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        "transaction.remove.expired.transaction.cleanup.interval.ms",
    ),
    "3600000",
)
# Members send heartbeats after the interval between two targets. The server's own is shorter by
# much, so a late heartbeat makes no round more.
_CONFIG["group.consumer.assignment.interval.ms"] = "200"


class Growth(NamedTuple):
    """One verb on both servers.

    Attributes:
        verb: what was done.
        steps: on the smaller server, and on the larger one.
    """

    verb: str
    steps: tuple[int, int]

    @property
    def ratio(self) -> float:
        """How often the smaller number is in the larger one."""
        smaller, larger = self.steps
        return larger / max(smaller, 1)

    @property
    def is_finding(self) -> bool:
        """Whether the verb costs more than in proportion."""
        return self.steps[1] > FEW_STEPS and self.ratio > LIMIT


def least(counts: Iterable[Growth]) -> Growth:
    """Return one verb with what it certainly costs, of several counts.

    What comes into a count besides the verb makes it larger, so the smallest count of the larger
    server is compared with the largest of the smaller one.
    """
    verbs, steps = zip(*counts, strict=True)
    smaller, larger = zip(*steps, strict=True)
    return Growth(verbs[0], (max(smaller), min(larger)))


def growths(
    directory: Path,
    sizes: Sizes,
    wanted: Callable[[str], bool],
    *,
    server: str = COUNTING_SERVER,
) -> Iterator[Growth]:
    """Run verbs on a server of some sizes and on one of twice these, and compare them.

    Args:
        directory: for the data.
        sizes: of the smaller server.
        wanted: which verbs, by their names.
        server: the program, which answers with its number of steps.
    """
    smaller = steps_of(directory / "smaller", sizes, wanted, server)
    larger = steps_of(directory / "larger", sizes.scaled(2), wanted, server)
    # The names of some verbs have numbers, which are not the same on both.
    for (verb, fewer), (_, more) in zip(smaller, larger, strict=True):
        yield Growth(verb, (fewer, more))


def steps_of(
    directory: Path, sizes: Sizes, wanted: Callable[[str], bool], server: str
) -> list[tuple[str, int]]:
    """Run verbs on a new server, and return the steps of each."""
    directory.mkdir(parents=True)
    broker = TimedBroker(directory, server, config=_CONFIG)
    broker.start()
    try:
        session = Session(broker.port, sizes, broker.data_dir)
        try:
            return [
                (verb.name, _steps(broker, verb))
                for verb in verbs(session)
                if verb.is_needed or wanted(verb.name)
            ]
        finally:
            session.close()
    finally:
        broker.stop()


def _steps(broker: TimedBroker, verb: Verb) -> int:
    broker.asked()
    answers = verb.run()
    codes = answers.codes()
    assert most(codes) == verb.expected, f"{verb.name} was answered {description(codes)}"
    steps, is_quiet = 0, False
    deadline_s = time.monotonic() + _MOST_QUIET_S
    while not is_quiet and time.monotonic() < deadline_s:
        is_quiet = True
        for _ in range(_LOOKS):
            time.sleep(_QUIET_S / _LOOKS)
            is_quiet = is_quiet and _is_asleep(broker.pid)
        more: int = broker.asked()
        steps += more
        is_quiet = is_quiet and more <= _IDLE_STEPS
    return steps


def _is_asleep(pid: int) -> bool:
    """Return whether no thread of a process runs, is ready to run, or waits for the disk.

    Where the system has no /proc, they seem to sleep always.
    """
    for path in Path(f"/proc/{pid}/task").glob("*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):
            # After the name, which may have parentheses.
            if path.read_text().rpartition(") ")[2][0] != "S":
                return False
    return True
