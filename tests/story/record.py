"""The independent log: every start, signal and callback, with the clock of the story itself."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.live.groups import Partition
from tests.live.members import Member

LEFT, KILLED = "leave", "kill"


class Callback(NamedTuple):
    """What a member reported: a generation in which it owned partitions.

    Attributes:
        member_id, generation: as the client library returns them.
        owned: its partitions.
        at_ms: when it was reported.
        until_ms: when the next one was, or when partitions were revoked; None for the last one.
    """

    member_id: str
    generation: int
    owned: frozenset[Partition]
    at_ms: float
    until_ms: float | None


class Session:
    """A member process, from its start to its end.

    Attributes:
        group, client, library, instance: as in the scenario.
        started_ms: when the process was started.
        end: how it was ended; None while it lives.
        ended_ms: when the signal was sent.
        gone_ms: when the process had ended.
        paused: whether it was stopped for longer than its session.
    """

    def __init__(
        self, group: str, client: str, library: str, instance: str | None, member: Member
    ) -> None:
        self.group, self.client, self.library, self.instance = group, client, library, instance
        self.member = member
        self.started_ms = now_ms()
        self.end: str | None = None
        self.ended_ms: float | None = None
        self.gone_ms: float | None = None
        self.paused = False

    def finish(self, end: str) -> None:
        """End the process."""
        self.end, self.ended_ms = end, now_ms()
        if end == LEFT:
            self.member.leave()
        else:
            self.member.kill()
        self.gone_ms = now_ms()

    def callbacks(self) -> list[Callback]:
        """Return what the member reported, in order.

        kafka-python names partitions as its own until it is assigned others, also those that it has
        given up for a rebalance which is under way; they do not count.
        """
        reported = []
        given_up: set[Partition] = set()
        for event in self.member.of("membership", "assigned", "revoked", "lost"):
            partitions = {(topic, number) for topic, number in event["partitions"]}
            if event["event"] == "assigned":
                given_up -= partitions
            elif event["event"] != "membership":
                given_up |= partitions
            elif event["generation"] > 0 and event["member_id"]:
                owned = frozenset(partitions - given_up)
                at_ms = event["at"] / 1_000
                reported.append((event["member_id"], event["generation"], owned, at_ms))
        revoked = [event["at"] / 1_000 for event in self.member.of("revoked", "lost", "closed")]
        changes = sorted(revoked + [at_ms for *_, at_ms in reported])
        ends = [next((end for end in changes if end > at_ms), None) for *_, at_ms in reported]
        return [
            Callback(member_id, generation, owned, at_ms, until_ms)
            for (member_id, generation, owned, at_ms), until_ms in zip(reported, ends, strict=True)
        ]

    def member_ids(self) -> list[str]:
        """Return the member ids that it had, in order."""
        return list(dict.fromkeys(each.member_id for each in self.callbacks()))

    def __str__(self) -> str:
        return f"{self.client} ({self.library}) of group {self.group}"


class Record:
    """The sessions of all groups.

    Attributes:
        sessions: in the order of their starts.
        committed: the highest acknowledged offsets by group and partition, after the last step.
        outages: when the broker was killed, and when it responded again.
    """

    def __init__(self) -> None:
        self.sessions: list[Session] = []
        self.committed: dict[str, dict[Partition, int]] = {}
        self.outages: list[tuple[float, float]] = []

    def remember_commits(self) -> None:
        """Remember what is acknowledged so far, because the members continue to commit."""
        for session in self.sessions:
            found = self.committed.setdefault(session.group, {})
            for partition, offset in session.member.acknowledged().items():
                found[partition] = max(offset, found.get(partition, 0))

    def of(self, group: str) -> list[Session]:
        """Return the sessions of a group, in the order of their starts."""
        return [each for each in self.sessions if each.group == group]

    def disturbances(self, group: str) -> dict[str, int]:
        """Return by client how often it came to other members or left them behind."""
        counts: dict[str, int] = {}
        sessions = self.of(group)
        for each in sessions:
            for at_ms in (each.started_ms, each.ended_ms):
                others = [other for other in sessions if other is not each and at_ms is not None
                          and other.started_ms < at_ms < (other.ended_ms or now_ms())]  # fmt: skip
                if others:
                    counts[each.client] = counts.get(each.client, 0) + 1
        return counts

    def left_unheard(self, session: Session) -> bool:
        """Return whether a process ended in order while there was no broker to be informed."""
        return session.end == LEFT and any(
            killed_ms <= (session.gone_ms or 0) and (session.ended_ms or 0) <= again_ms
            for killed_ms, again_ms in self.outages
        )

    def lines(self) -> Iterator[dict[str, Any]]:
        """Yield what happened, in the order of time."""
        found: list[tuple[float, Session, str, dict[str, Any]]] = []
        for each in self.sessions:
            found.append((each.started_ms, each, "start", {"instance": each.instance}))
            if each.ended_ms is not None:
                found.append((each.ended_ms, each, str(each.end), {}))
            for event in each.member.of("assigned", "revoked", "lost", "membership", "closed"):
                fields = {k: v for k, v in event.items() if k not in ("at", "event")}
                found.append((event["at"] / 1_000, each, event["event"], fields))
        for at_ms, each, what, fields in sorted(found, key=lambda entry: entry[0]):
            yield {"at_ms": round(at_ms), "group": each.group, "client": each.client, "what": what,
                   **fields}  # fmt: skip

    def write(self, path: Path) -> None:
        """Write the log as JSON lines."""
        path.write_text("".join(json.dumps(line) + "\n" for line in self.lines()))


def now_ms() -> float:
    """Return the time, in epoch milliseconds."""
    return time.time() * 1_000
