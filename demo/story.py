"""The story the demo tells, step by step, and the verdict at its end."""

import time
from collections import Counter
from collections.abc import Callable

from demo.cast import Coordinator, Member, Producer, Record
from demo.server import DemoError, Stage
from demo.view import Scene, View

PARTITIONS = 6
RECORDS_PER_SECOND = 120
# How long a settled group is shown before the next thing happens.
WATCH_S = 2.2
# Far above the second or two that it takes, below the patience of an audience.
SETTLE_LIMIT_S = 25.0
LOOK_S = 0.1


class Story:
    """One performance: members come and go while the producer goes on."""

    def __init__(self, stage: Stage, topic: str, scene: Scene, view: View) -> None:
        self._stage = stage
        self._scene = scene
        self._view = view
        self._coordinator = Coordinator(stage.bootstrap, group=topic)
        self._coordinator.create_topic(topic, PARTITIONS)
        scene.tell("", f"topic {topic} with {PARTITIONS} partitions")
        self._options = {
            "bootstrap": stage.bootstrap,
            "group": topic,
            "topic": topic,
            "session-timeout-ms": str(stage.session_timeout_ms),
        }
        self._session_s = stage.session_timeout_ms / 1000
        self._producer = Producer(stage.bootstrap, topic, PARTITIONS, RECORDS_PER_SECOND)
        scene.tell("", f"a producer writes {RECORDS_PER_SECOND} records a second")

    def tell(self) -> None:
        """All steps, in order."""
        first, second, third = (self._enter(*each) for each in self._opening())
        self._settle("three members, three libraries, one group", [first, second, third])
        fourth = self._enter("kafka-python", "kafka-python-2")
        self._settle(
            "a fourth member joins: the partitions are shared anew", [*self._scene.members]
        )
        self._scene.tell(second.name, "leaves (SIGTERM): it says so to the coordinator")
        second.leave()
        self._settle("one has left: the others take over at once", [first, third, fourth])
        first.kill()
        self._scene.tell(first.name, "is killed (SIGKILL): it says nothing to anybody")
        self._settle(
            f"one was killed: missed after its session of {self._session_s:g} s",
            [third, fourth],
        )
        self._producer.stop()
        self._scene.tell("", "the producer stops; the members read what is left")
        self._look_until(
            self._all_read, "every record was read", lambda: f"{len(self.unread())} are not"
        )
        self._look()
        self._scene.title = "every record was read"
        self._view.snapshot()

    @staticmethod
    def _opening() -> list[tuple[str, str]]:
        return [
            ("kafka-python", "kafka-python-1"),
            ("aiokafka", "aiokafka-1"),
            ("confluent", "confluent-1"),
        ]

    def _enter(self, library: str, name: str) -> Member:
        member = Member(library, name, self._options, self._scene.tell)
        self._scene.members.append(member)
        self._scene.tell(name, f"starts (pid {member.process.pid})")
        return member

    def _settle(self, title: str, members: list[Member]) -> None:
        """Wait until exactly these members share all partitions, and let people look at it."""
        self._scene.title = title
        names = {member.name for member in members}

        def settled() -> bool:
            now = self._scene.standing
            return (
                now.state == "Stable"
                and now.members == names
                and len(now.owners) == PARTITIONS
                and set(now.owners.values()) == names
            )

        self._look_until(
            settled, f"the group of {', '.join(sorted(names))} to settle", self._standing
        )
        watched = time.monotonic() + WATCH_S
        self._look_until(lambda: time.monotonic() > watched, "the clock", str)
        self._look()
        self._view.snapshot()

    def _look_until(
        self, condition: Callable[[], bool], what: str, told: Callable[[], object]
    ) -> None:
        """Look at the group again and again until the condition holds."""
        deadline = time.monotonic() + SETTLE_LIMIT_S
        while not condition():
            self._look()
            if time.monotonic() > deadline:
                raise DemoError(
                    f"waited {SETTLE_LIMIT_S:g} s for {what}; {told()}. On a machine that is very "
                    "busy this may happen: try again when it is not."
                )
            time.sleep(LOOK_S)

    def _look(self) -> None:
        self._stage.check()
        before = self._scene.standing
        now = self._coordinator.standing(before)
        if now.state != before.state:
            self._scene.tell("", f"group {before.state} -> {now.state}")
        self._scene.standing = now
        self._scene.ends = self._producer.ends()
        for member in self._scene.members:
            if member.alive or member.status in ("left", "killed"):
                continue
            raise DemoError(f"{member.name} ended by itself:\n{member.last_words()}")

    def _standing(self) -> str:
        now = self._scene.standing
        return f"it is {now.state} with {', '.join(sorted(now.members)) or 'nobody'}"

    def _all_read(self) -> bool:
        return not self.unread()

    def read(self) -> Counter[Record]:
        """How often each record was read."""
        return sum((member.read for member in self._scene.members), Counter())

    def unread(self) -> set[Record]:
        """Records the broker has acknowledged and nobody has read."""
        return self._producer.stored - self.read().keys()

    def verdict(self) -> tuple[bool, list[str]]:
        """Whether all went well, and the summary."""
        shares = ", ".join(f"{each.name} {len(each.read)}" for each in self._scene.members)
        well, lines = judged(self._producer.stored, self.read(), self._producer.failures)
        return well, [*lines, f"generations: {self._scene.generation()}; records read: {shares}"]

    def close(self) -> None:
        """Put everybody away."""
        self._producer.abandon()
        for member in self._scene.members:
            member.put_away()
        self._coordinator.close()


def judged(
    stored: set[Record], read: Counter[Record], failures: list[str]
) -> tuple[bool, list[str]]:
    """Whether every stored record was read and nothing failed, and what there is to say of it."""
    unread = stored - read.keys()
    again = sum(times - 1 for times in read.values())
    lines = [
        f"produced {len(stored)} records; {len(stored) - len(unread)} read, {len(unread)} not read",
        f"read twice, by the heir of a member that had not yet committed: {again}",
        *(f"the producer was told: {failure}" for failure in failures[:3]),
    ]
    return bool(stored) and not unread and not failures, lines
