"""Kills `coterie serve` at random moments and compares it with what it acknowledged.

Clients commit as fast as they are answered, and one group forms one generation after another. The
server rolls its segments several times a second and compacts them at once, so that kills hit all
of this; some kills come while it starts and loads. After each restart every group must have the
offset that was acknowledged last or the one whose request was unanswered, and no generation may be
repeated. Members of consumer groups live meanwhile (group_kills.py). Every second server has 40
group partitions and 96 file handles.
"""

import random
import tempfile
import threading
import time
from contextlib import closing
from pathlib import Path

from tests.crash.group_kills import MOVED, PARTITIONS, GroupsUnderKills, patiently
from tests.crash.wire import Connection, Refused
from tests.live.broker_process import START_LIMIT_S, BrokerProcess

TOPIC = "ledger"
COMMITTERS = 3
# With metadata of this length a few hundred commits fill a segment of the smallest size.
_METADATA = "m" * 3000
_CONFIG = {
    "offsets.topic.num.partitions": "2",
    "offsets.topic.segment.bytes": str(1 << 20),
    "log.roll.ms": "150",
    "log.cleaner.backoff.ms": "20",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
}
# 16 for the files of logs, and 16 for connections.
_FEW_HANDLES = 96
# The share of kills followed by another one while the server starts.
_IN_START_SHARE = 0.25
_LONGEST_START_S = 0.5
_LONGEST_RUN_S = 0.6
_LOAD_LIMIT_S = START_LIMIT_S / 2


class Ledger:
    """What one group sent, and the part acknowledged; the rest may have taken effect too."""

    def __init__(self, group: str) -> None:
        self.group = group
        self.acknowledged = -1
        self.sent = -1
        self.total = 0


class KillResult:
    """The figures of a run, and its failures."""

    def __init__(self) -> None:
        self.kills = 0
        self.in_start = 0
        self.in_compaction = 0
        self.rolled = 0
        self.commits = 0
        self.generations = 0
        self.epochs = 0
        self.failures: list[str] = []
        self.seconds = 0.0

    def table(self) -> list[str]:
        """The report's lines."""
        return [
            *self.failures,
            f"{'kill -9':<28}{self.kills:>10,} in {self.seconds:.0f} s",
            f"{'  while starting or loading':<28}{self.in_start:>10,}",
            f"{'  during a compaction':<28}{self.in_compaction:>10,}",
            f"{'segments seen at kills':<28}{self.rolled:>10,}",
            f"{'acknowledged commits':<28}{self.commits:>10,}",
            f"{'acknowledged generations':<28}{self.generations:>10,}",
            f"{'larger epochs of members':<28}{self.epochs:>10,}",
            f"{'lost':<28}{len(self.failures):>10,}",
        ]


class KillRun:
    """One server, killed and restarted in one data directory."""

    def __init__(self, place: Path, seed: int) -> None:
        # Every second server has many partitions and few file handles.
        is_short = seed % 2 == 1
        config = {**_CONFIG, "offsets.topic.num.partitions": "40"} if is_short else _CONFIG
        self.broker = BrokerProcess(place / "data", config, _FEW_HANDLES if is_short else None)
        self.random = random.Random(seed)
        self.offsets = [Ledger(f"committer-{number}") for number in range(COMMITTERS)]
        self.generations = Ledger("generations")
        self.member_id = ""
        self.groups = GroupsUnderKills(seed)
        self.done = KillResult()

    def run(self, kills: int, until_s: float) -> None:
        """Start the server and kill it at least `kills` times, unless that takes too long.

        Args:
            kills: how often.
            until_s: no kill comes later, on the monotonic clock.
        """
        self.broker.start()
        with closing(Connection(self.broker.port)) as connection:
            connection.create_topic(TOPIC)
            connection.create_topic(MOVED, PARTITIONS)
        for _ in range(kills):
            if time.monotonic() > until_s:
                break
            self._live()
            if self.random.random() < _IN_START_SHARE:
                self._kill_in_start()
            self.broker.start()
            self._compare()
        self._count()
        self.broker.kill()

    def _live(self) -> None:
        """Let the clients work, and kill the server while they do."""
        threads = [threading.Thread(target=self._commit, args=(each,)) for each in self.offsets]
        threads.append(threading.Thread(target=self._rebalance))
        threads += [
            threading.Thread(target=self.groups.live, args=(each, self.broker.port))
            for each in self.groups.members
        ]
        for thread in threads:
            thread.start()
        # Every client must have something acknowledged before a kill can lose it.
        until = time.monotonic() + _LOAD_LIMIT_S
        clients = (*self.offsets, self.generations, *self.groups.members)
        while not all(each.total for each in clients):
            if time.monotonic() > until:
                self.done.failures.append("not every client was answered")
                break
            time.sleep(0.01)
        time.sleep(self.random.uniform(0.01, _LONGEST_RUN_S))
        self.broker.kill()
        self.done.kills += 1
        names = [path.name for path in self.broker.data_dir.glob("__consumer_offsets-*/*")]
        self.done.in_compaction += any(".cleaned" in name or ".swap" in name for name in names)
        self.done.rolled += sum(name.endswith(".log") for name in names)
        for thread in threads:
            thread.join()

    def _kill_in_start(self) -> None:
        """Start the server and kill it before any client connects."""
        self.broker.begin()
        time.sleep(self.random.uniform(0.1, _LONGEST_START_S))
        self.broker.kill()
        self.done.kills += 1
        self.done.in_start += 1

    def _commit(self, ledger: Ledger) -> None:
        try:
            with closing(Connection(self.broker.port)) as connection:
                while True:
                    ledger.sent += 1
                    patiently(connection.commit, ledger.group, TOPIC, ledger.sent, _METADATA)
                    ledger.acknowledged = ledger.sent
                    ledger.total += 1
        except OSError:
            return
        except Refused as refused:
            self.done.failures.append(f"{ledger.group}: a commit was refused: {refused}")

    def _rebalance(self) -> None:
        ledger = self.generations
        try:
            with closing(Connection(self.broker.port)) as connection:
                while True:
                    self._next_generation(connection)
        except OSError:
            return
        except Refused as refused:
            if ledger.acknowledged < 0 and self.member_id:
                # The first generation was never acknowledged, so it may be lost with its member.
                self.member_id = ""
            else:
                self.done.failures.append(
                    f"generations: {refused} after generation {ledger.acknowledged}"
                )

    def _next_generation(self, connection: Connection) -> None:
        ledger = self.generations
        generation, self.member_id = patiently(connection.join, ledger.group, self.member_id)
        if generation <= ledger.acknowledged:
            self.done.failures.append(f"generation {generation} comes after {ledger.acknowledged}")
        connection.sync(ledger.group, generation, self.member_id)
        ledger.acknowledged = generation
        ledger.total += 1

    def _compare(self) -> None:
        with closing(Connection(self.broker.port)) as connection:
            every = [patiently(connection.fetch, each.group, TOPIC) for each in self.offsets]
        for ledger, found in zip(self.offsets, every, strict=True):
            if not ledger.acknowledged <= found <= ledger.sent:
                self.done.failures.append(
                    f"{ledger.group}: {ledger.acknowledged} was acknowledged, {found} is found,"
                    f" {ledger.sent} was sent (kill {self.done.kills}, {self.broker.data_dir})"
                )
            # The answer is a promise too.
            ledger.acknowledged = ledger.sent = found
        self.groups.compare(self.broker.port)

    def _count(self) -> None:
        groups = self.groups.groups
        self.done.commits = sum(each.total for each in self.offsets)
        self.done.commits += sum(each.commits for each in groups)
        self.done.generations = self.generations.total
        self.done.epochs = sum(each.epochs for each in groups)
        for group in groups:
            self.done.failures += group.failures


def kill_many(
    kills: int, servers: int, first_seed: int = 0, at_most_s: float = 3_600.0
) -> KillResult:
    """Kill several servers at the same time, `kills` times in total or for `at_most_s` seconds."""
    began = time.monotonic()
    done = KillResult()
    servers = max(1, min(servers, kills))
    with tempfile.TemporaryDirectory() as place:
        runs = []
        for number in range(servers):
            own = Path(place) / str(number)
            own.mkdir()
            runs.append(KillRun(own, first_seed + number))
        share = -(-kills // servers)
        threads = [
            threading.Thread(target=_run, args=(each, share, began + at_most_s), daemon=True)
            for each in runs
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for run in runs:
            one = run.done
            done.kills += one.kills
            done.in_start += one.in_start
            done.in_compaction += one.in_compaction
            done.rolled += one.rolled
            done.commits += one.commits
            done.generations += one.generations
            done.epochs += one.epochs
            done.failures += one.failures
    done.seconds = time.monotonic() - began
    return done


def _run(run: KillRun, kills: int, until_s: float) -> None:
    try:
        run.run(kills, until_s)
    except Exception as error:
        run.done.failures.append(f"{type(error).__name__}: {error}")
        run.broker.kill()
