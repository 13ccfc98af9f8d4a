"""The steps of the demo, and the check at its end."""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from demo.group import Coordinator, Member, Record
from demo.producer import SteadyProducer
from demo.view import Scene, View

PARTITIONS = 6
RECORDS_PER_SECOND = 120
# How long a stable group is shown before the next step.
SHOW_S = 2.2
# A step takes a second or two; on a busy machine it may take several times as long.
STEP_LIMIT_S = 25.0
POLL_INTERVAL_S = 0.1


class DemoError(Exception):
    """The demo has failed; the text has the cause and the remedy."""


@dataclass(frozen=True)
class Target:
    """The broker of the demo.

    Attributes:
        bootstrap: its address.
        description: what the view shows about it.
        session_timeout_ms: the session timeout of the members.
        check: raises an exception if the broker has ended.
    """

    bootstrap: str
    description: str
    session_timeout_ms: int
    check: Callable[[], None] = lambda: None


class Scenario:
    """One run of the demo: members come and go while the producer keeps writing."""

    def __init__(self, target: Target, topic: str, scene: Scene, view: View) -> None:
        self._target = target
        self._scene = scene
        self._view = view
        self._coordinator = Coordinator(target.bootstrap, group=topic)
        self._coordinator.create_topic(topic, PARTITIONS)
        scene.log("", f"topic {topic} with {PARTITIONS} partitions")
        self._options = {
            "bootstrap": target.bootstrap,
            "group": topic,
            "topic": topic,
            "session_timeout_ms": target.session_timeout_ms,
            "max_poll_records": 50,
        }
        self._session_s = target.session_timeout_ms / 1000
        self._producer = SteadyProducer(target.bootstrap, topic, PARTITIONS, RECORDS_PER_SECOND)
        scene.log("", f"a producer writes {RECORDS_PER_SECOND} records a second")

    def run(self) -> None:
        """Run all steps.

        Raises:
            DemoError: a step did not complete, or a member ended by itself.
        """
        first = self._start("kafka-python", "kafka-python-1")
        second = self._start("aiokafka", "aiokafka-1")
        third = self._start("confluent", "confluent-1")
        self._wait_stable("three members, three libraries, one group", [first, second, third])
        fourth = self._start("kafka-python", "kafka-python-2")
        self._wait_stable(
            "a fourth member joins: the partitions are assigned anew",
            [first, second, third, fourth],
        )
        self._scene.log(second.name, "leaves (SIGTERM) with a LeaveGroup request")
        second.leave()
        self._wait_stable("one has left: the others take over at once", [first, third, fourth])
        first.die()
        self._scene.log(first.name, "is killed (SIGKILL) without a request")
        self._wait_stable(
            f"one was killed: the others take over after its session of {self._session_s:g} s",
            [third, fourth],
        )
        self._producer.stop()
        self._scene.log("", "the producer stops; the members read the rest")
        self._poll_until(
            lambda: not self.unread(),
            "every record to be read",
            lambda: f"{len(self.unread())} records are unread",
        )
        self._poll()
        self._scene.title = "every record was read"
        self._view.snapshot()

    def _start(self, library: str, name: str) -> Member:
        member = Member(library, name, self._options)
        self._scene.members.append(member)
        self._scene.log(name, f"starts (pid {member.process.pid})")
        return member

    def _wait_stable(self, title: str, members: list[Member]) -> None:
        """Wait until exactly these members own all partitions, and show that for a while."""
        self._scene.title = title
        names = {member.name for member in members}

        def is_stable() -> bool:
            now = self._scene.group
            return (
                now.state == "Stable"
                and now.members == names
                and len(now.owners) == PARTITIONS
                and set(now.owners.values()) == names
            )

        self._poll_until(
            is_stable, f"the group of {', '.join(sorted(names))} to be stable", self._group_text
        )
        end_s = time.monotonic() + SHOW_S
        self._poll_until(lambda: time.monotonic() > end_s, "the end of the step", str)
        self._poll()
        self._view.snapshot()

    def _poll_until(
        self, condition: Callable[[], bool], what: str, evidence: Callable[[], object]
    ) -> None:
        """Poll the group until a condition holds.

        Raises:
            DemoError: it does not hold within the limit.
        """
        deadline_s = time.monotonic() + STEP_LIMIT_S
        while not condition():
            self._poll()
            if time.monotonic() > deadline_s:
                raise DemoError(
                    f"waited {STEP_LIMIT_S:g} s for {what}, but {evidence()}. If the machine is"
                    " very busy, try again later."
                )
            time.sleep(POLL_INTERVAL_S)

    def _poll(self) -> None:
        """Bring the scene up to date.

        Raises:
            DemoError: a member ended by itself.
        """
        self._target.check()
        before = self._scene.group
        now = self._coordinator.group_state(before)
        if now.state != before.state:
            self._scene.log("", f"group {before.state} -> {now.state}")
        self._scene.group = now
        self._scene.ends = Counter(partition for partition, _ in list(self._producer.stored))
        for member in self._scene.members:
            for text in member.update():
                self._scene.log(member.name, text)
            if member.alive or member.status in ("left", "killed"):
                continue
            raise DemoError(f"{member.name} ended by itself:\n{member.last_lines()}")

    def _group_text(self) -> str:
        now = self._scene.group
        return f"it is {now.state} with {', '.join(sorted(now.members)) or 'no members'}"

    def read(self) -> Counter[Record]:
        """Return how often each record was read."""
        return sum((member.read for member in self._scene.members), Counter())

    def unread(self) -> set[Record]:
        """Return the acknowledged records that no member has read."""
        return self._producer.stored - self.read().keys()

    def result(self) -> tuple[bool, list[str]]:
        """Return whether the demo succeeded, and the lines of its summary."""
        shares = ", ".join(f"{each.name} {len(each.read)}" for each in self._scene.members)
        succeeded, lines = summary(self._producer.stored, self.read(), self._producer.failures)
        lines.append(f"records read: {shares}")
        lines.append(f"generations: {self._scene.generation()}")
        return succeeded, lines

    def close(self) -> None:
        """Stop the producer and all members."""
        self._producer.abandon()
        for member in self._scene.members:
            member.stop()
        self._coordinator.close()


def summary(
    stored: set[Record], read: Counter[Record], failures: list[str]
) -> tuple[bool, list[str]]:
    """Return whether every stored record was read and no record failed, and the summary."""
    unread = stored - read.keys()
    repeated = sum(times - 1 for times in read.values())
    lines = [
        f"produced {len(stored)} records; {len(stored) - len(unread)} read, {len(unread)} not read",
        f"read again after a member that had not yet committed them: {repeated}",
        *(f"the producer failed: {failure}" for failure in failures[:3]),
    ]
    return bool(stored) and not unread and not failures, lines
