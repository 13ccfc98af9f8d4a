"""Members as child processes, seen through the events they print.

`Members` starts them and puts them all away at the end of a test; `Member` is one of them. The
questions asked of a group as a whole (who owns what, was every record read) are functions here.
"""

import json
import signal
import subprocess
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

from demo.member_process import MemberProcess
from tests.live.deadlines import GENEROUS_S, eventually

LEAVE_LIMIT_S = 20.0

Event = dict[str, Any]
Partition = tuple[str, int]


class Member(MemberProcess):
    """A running (or ended) member program."""

    def __init__(self, library: str, options: dict[str, object], python_path: Path | None) -> None:
        self.events: list[Event] = []
        self._said = threading.Condition()
        environment = {} if python_path is None else {"PYTHONPATH": str(python_path)}
        super().__init__("tests.live.member", library, options, environment)

    def handle(self, event: Event) -> None:
        with self._said:
            self.events.append(event)
            self._said.notify_all()

    def handle_end(self) -> None:
        with self._said:
            self._said.notify_all()

    def of(self, *names: str) -> list[Event]:
        """The events of these names so far, in order."""
        return [event for event in list(self.events) if event["event"] in names]

    def wait_for(
        self, name: str, after: int = 0, within_s: float = GENEROUS_S, **fields: object
    ) -> Event:
        """The first event of that name and those fields, from index `after` on."""
        deadline = time.monotonic() + within_s
        with self._said:
            while True:
                for event in self.events[after:]:
                    if event["event"] == name and fields.items() <= event.items():
                        return event
                left = deadline - time.monotonic()
                if left <= 0 or self.all_read:
                    raise AssertionError(f"no event {name} {fields} of {self.story()}")
                self._said.wait(min(left, 0.1))

    @property
    def partitions(self) -> set[Partition]:
        """What it owns, by its newest account; nothing once it has ended."""
        newest = self.of("membership", "closed")[-1:]
        if self.process.poll() is not None or not newest or newest[0]["event"] == "closed":
            return set()
        return {(topic, partition) for topic, partition in newest[0]["partitions"]}

    @property
    def generation(self) -> int:
        """The generation it last was part of, -1 before the first."""
        newest = self.of("membership")[-1:]
        return newest[0]["generation"] if newest else -1

    @property
    def member_id(self) -> str:
        """Its newest member id."""
        newest = self.of("membership")[-1:]
        return newest[0]["member_id"] if newest else ""

    def records(self) -> list[tuple[str, int, int]]:
        """(topic, partition, offset) of every record it handled, in order."""
        return [(each["topic"], each["partition"], each["offset"]) for each in self.of("record")]

    def acknowledged(self) -> dict[Partition, int]:
        """The highest offset the broker acknowledged to it, by partition."""
        highest: dict[Partition, int] = {}
        for event in self.of("committed"):
            for topic, partition, offset in event["offsets"]:
                highest[topic, partition] = max(offset, highest.get((topic, partition), 0))
        return highest

    def order(self, **order: object) -> None:
        """Give it an order, as member.py understands it."""
        self.send(order)

    def leave(self) -> int:
        """SIGTERM: it closes its consumer and ends; returns the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self._wait(LEAVE_LIMIT_S)

    def kill(self) -> int:
        """SIGKILL: not a word to the coordinator."""
        self.process.kill()
        return self._wait(5)

    def wait_end(self, within_s: float = GENEROUS_S) -> int:
        """Wait until it ends by itself; returns the exit code."""
        return self._wait(within_s)

    def _wait(self, within_s: float) -> int:
        try:
            return self.wait(within_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"did not end within {within_s:g} s: {self.story()}") from None

    def story(self) -> str:
        """What it said last, for error messages; records only counted."""
        told = [event for event in list(self.events) if event["event"] != "record"][-12:]
        lines = [f"{self.library} pid {self.process.pid} exit {self.process.poll()}"]
        lines += [f"{len(self.of('record'))} records", *map(json.dumps, told), *self.last_errors()]
        return "\n  ".join(lines)


class Members:
    """Starts the members of one test, with what they have in common, and puts them away."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._started: list[Member] = []

    def start(self, library: str, *, python_path: Path | None = None, **options: object) -> Member:
        """Start one; `options` are those of member.py, with underscores."""
        member = Member(library, {"bootstrap": self.bootstrap, **options}, python_path)
        self._started.append(member)
        return member

    def put_away(self) -> None:
        """End all that still run."""
        for member in self._started:
            member.close()


def stories(members: list[Member]) -> str:
    """What all of them said last."""
    return "\n".join(member.story() for member in members)


def wait_shared(
    members: list[Member], topic: str, partitions: int, within_s: float = GENEROUS_S
) -> list[set[Partition]]:
    """Wait until every partition has exactly one owner and all are in one generation.

    Returns what each of them owns. Every member must own something, so a group of more members
    than partitions never gets there.
    """
    wanted = {(topic, index) for index in range(partitions)}

    def shared() -> list[set[Partition]] | None:
        ended = [member for member in members if member.process.poll() is not None]
        assert not ended, f"ended before its time: {stories(ended)}"
        owned = [member.partitions for member in members]
        whole = set().union(*owned) == wanted and sum(map(len, owned)) == partitions
        one_generation = len({member.generation for member in members}) == 1
        return owned if whole and all(owned) and one_generation else None

    return eventually(
        shared, f"{topic} shared among {len(members)}", within_s, lambda: stories(members)
    )


def read_counts(members: list[Member]) -> Counter[tuple[str, int, int]]:
    """How often each record was handled, over all these members."""
    return Counter(record for member in members for record in member.records())


def wait_all_read(
    members: list[Member], expected: set[tuple[str, int, int]], within_s: float = GENEROUS_S
) -> Counter[tuple[str, int, int]]:
    """Wait until every expected record was handled at least once; returns the counts."""

    def told() -> str:
        missing = sorted(expected - read_counts(members).keys())
        return f"{len(missing)} missing, first {missing[:5]}\n{stories(members)}"

    eventually(lambda: expected <= read_counts(members).keys(), "every record read", within_s, told)
    return read_counts(members)
