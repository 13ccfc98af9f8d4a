"""Group members as child processes, observed through the events they print.

`Members` starts the members of a test and ends them all; `Member` is one of them. The functions
check a group as a whole: who owns which partition, and whether every record was read.
"""

import json
import os
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

from coterie.processes.member_process import MemberProcess
from tests.live.deadlines import GENEROUS_S, PAUSE_S, eventually
from tests.live.groups import Partition, StoredRecord

LEAVE_LIMIT_S = 60.0

Event = dict[str, Any]


class Member(MemberProcess):
    """A running or ended member program."""

    def __init__(self, library: str, options: dict[str, object], python_path: Path | None) -> None:
        self._events: list[Event] = []
        # A group of the story is watched by a thread of its own, and by that of the story.
        self._reading = threading.Lock()
        path = {} if python_path is None else {"PYTHONPATH": str(python_path)}
        # The default of 30 s is too long to find a restarted broker within a test.
        options = {"reconnect_backoff_max_ms": 500, **options}
        super().__init__(library, options, os.environ | path)

    @property
    def events(self) -> list[Event]:
        """The events that it has written, in order."""
        with self._reading:
            self._events += [
                {"event": line.event, "at": line.at_us, **line.fields} for line in self.new_lines()
            ]
            return self._events

    def of(self, *names: str) -> list[Event]:
        """Return the events of these names so far, in order."""
        return [event for event in self.events if event["event"] in names]

    def wait_for(
        self, name: str, after: int = 0, within_s: float = GENEROUS_S, **fields: object
    ) -> Event:
        """Return the first event of a name with these fields, from index `after` on."""
        deadline = time.monotonic() + within_s
        while True:
            is_over = not self.running or time.monotonic() > deadline
            for event in self.events[after:]:
                if event["event"] == name and fields.items() <= event.items():
                    return event
            if is_over:
                raise AssertionError(f"no event {name} {fields} of {self.summary()}")
            time.sleep(PAUSE_S)

    @property
    def partitions(self) -> set[Partition]:
        """The partitions that it last reported; none once it has ended."""
        newest = self.of("membership", "closed")[-1:]
        if not self.running or not newest or newest[0]["event"] == "closed":
            return set()
        return {(topic, partition) for topic, partition in newest[0]["partitions"]}

    @property
    def generation(self) -> int:
        """The generation that it last reported; -1 before the first."""
        newest = self.of("membership")[-1:]
        return newest[0]["generation"] if newest else -1

    @property
    def member_id(self) -> str:
        """The member id that it last reported."""
        newest = self.of("membership")[-1:]
        return newest[0]["member_id"] if newest else ""

    def records(self) -> list[StoredRecord]:
        """Return the records that it has handled, in order."""
        return [
            (topic, partition, offset)
            for each in self.of("delivered")
            for topic, partition, first, last in each["batches"]
            for offset in range(first, last + 1)
        ]

    def acknowledged(self) -> dict[Partition, int]:
        """Return the highest committed offset that the broker has acknowledged, by partition."""
        highest: dict[Partition, int] = {}
        for event in self.of("committed"):
            for topic, partition, offset in event["offsets"]:
                highest[topic, partition] = max(offset, highest.get((topic, partition), 0))
        return highest

    def join(self) -> None:
        """Order a member to join that was started with join="when-ordered"."""
        self.send({"join": True})

    def subscribe(self, topics: list[str]) -> None:
        """Make it subscribe to other topics."""
        self.send({"subscribe": topics})

    def leave(self) -> int:
        """Send SIGTERM, so that it closes its consumer and ends; return the exit code.

        If it is not 0, what the member wrote last is printed, for the report of a failed test.
        """
        code = self.end(limit_s=LEAVE_LIMIT_S)
        if code:
            print(self.summary())
        return code

    def close(self) -> None:
        """Kill it if it is still running, read the last events, and remove its files."""
        self.kill()
        _ = self.events
        super().close()

    def summary(self) -> str:
        """Return its last events, for error messages; records are only counted."""
        last = [event for event in self.events if event["event"] != "delivered"][-12:]
        lines = [f"{self.library} pid {self.process.pid} exit code {self.process.poll()}"]
        lines += [f"{len(self.records())} records", *map(json.dumps, last), self.last_lines()]
        return "\n  ".join(lines)


class Members:
    """Starts the members of a test, and ends them."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._started: list[Member] = []

    def start(self, library: str, python_path: Path | None = None, /, **options: Any) -> Member:
        """Start a member.

        Args:
            library: its client library.
            python_path: the directory of an old release of the library, if it is to use one.
            options: the options of coterie/processes/member, with underscores.
        """
        member = Member(library, {"bootstrap": self.bootstrap, **options}, python_path)
        self._started.append(member)
        return member

    def close(self) -> None:
        """End all members that are still running."""
        for member in self._started:
            member.close()


def summaries(members: list[Member]) -> str:
    """Return the last events of all members."""
    return "\n".join(member.summary() for member in members)


def wait_assigned(
    members: list[Member], topic: str, partitions: int, within_s: float = GENEROUS_S
) -> list[set[Partition]]:
    """Wait until each partition has one owner and all members report the same generation.

    Every member must own a partition, so there must not be more members than partitions.

    Returns:
        The partitions of each member.
    """
    wanted = {(topic, index) for index in range(partitions)}

    def assigned() -> list[set[Partition]] | None:
        ended = [member for member in members if member.process.poll() is not None]
        assert not ended, f"ended by itself: {summaries(ended)}"
        owned = [member.partitions for member in members]
        is_complete = set().union(*owned) == wanted and sum(map(len, owned)) == partitions
        one_generation = len({member.generation for member in members}) == 1
        return owned if is_complete and all(owned) and one_generation else None

    owned = eventually(
        assigned, f"{topic} assigned to {len(members)}", within_s, lambda: summaries(members)
    )
    assert owned is not None, "`eventually` returns true results only"
    return owned


def wait_partitions(member: Member, partitions: set[Partition]) -> None:
    """Wait until a member owns exactly these partitions."""
    eventually(
        lambda: member.partitions == partitions,
        f"{sorted(partitions)} assigned",
        evidence=member.summary,
    )


def read_counts(members: list[Member]) -> Counter[StoredRecord]:
    """Return how often each record was handled by these members."""
    return Counter(record for member in members for record in member.records())


def wait_all_read(
    members: list[Member], expected: set[StoredRecord], within_s: float = GENEROUS_S
) -> Counter[StoredRecord]:
    """Wait until every expected record was handled, and return how often each was."""

    def evidence() -> str:
        missing = sorted(expected - read_counts(members).keys())
        return f"{len(missing)} missing, first {missing[:5]}\n{summaries(members)}"

    eventually(
        lambda: expected <= read_counts(members).keys(), "every record read", within_s, evidence
    )
    return read_counts(members)
