"""Streams groups (KIP-1071) on our coordinator in virtual time, and what a broker keeps of them."""

from typing import Any

from coterie.coordinator.groups.streams.tasks import told_tasks
from coterie.protocol.errors import ErrorCode
from tests.pipeline.consumer_stories import HEARTBEAT_MS, Recording
from tests.unit.coordinator.streams.harness import STATEFUL, StreamsHarness

_TICK_MS = 1_000
REBALANCE_MS = 60_000


class StreamsStory(Recording, StreamsHarness):
    """A coordinator whose members run tasks and send heartbeats.

    Attributes:
        slow: the members that go on with what they were asked to give up.
        silent: the members that send no heartbeat.
    """

    def __init__(self, topics: dict[str, int], **settings: Any) -> None:
        self.slow: set[str] = set()
        self.silent: set[str] = set()
        self._epochs: dict[str, int] = {}
        self._tasks: dict[str, tuple[Any, Any]] = {}
        super().__init__(topics, **settings)

    def start(self, *members: str, topology: Any = STATEFUL, **fields: Any) -> None:
        """Let members join, each of a process of its own if none is given."""
        for name in members:
            self._tasks[name] = [], []
            joins = {
                "topology": topology,
                "rebalance_timeout_ms": REBALANCE_MS,
                "process_id": f"process-{name}",
                **fields,
            }
            answer = self.stream(name, 0, **joins)
            self._answered(name, answer)

    def stop(self, *members: str) -> None:
        """Let members leave."""
        for name in members:
            self.stream(name, -1)
            del self._epochs[name]

    def pass_time(self, seconds: int) -> None:
        """Let time pass; each member sends a heartbeat every five seconds."""
        for _ in range(seconds * 1000 // _TICK_MS):
            self.wait(_TICK_MS)
            second = self.now_ms // _TICK_MS
            for index, name in enumerate(sorted(self._epochs)):
                due = (second + index) % (HEARTBEAT_MS // _TICK_MS) == 0
                if due and name not in self.silent:
                    self._beat(name)

    def _beat(self, name: str) -> None:
        answer = self.stream(name, self._epochs[name], *self._tasks[name])
        if answer.error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH):
            # Its application has ended meanwhile.
            del self._epochs[name]
            return
        self._answered(name, answer)

    def _answered(self, name: str, answer: Any) -> None:
        assert not answer.error_code, answer
        self._epochs[name] = answer.member_epoch
        if answer.active_tasks is None:
            return
        told = _by_name(answer.active_tasks), _by_name(answer.standby_tasks)
        lost = any(
            set(numbers) - set(now.get(each, ()))
            for before, now in zip(map(_by_name, self._tasks[name]), told, strict=True)
            for each, numbers in before.items()
        )
        if not (lost and name in self.slow):
            self._tasks[name] = told_tasks(told[0]), told_tasks(told[1])


def _by_name(listed: Any) -> dict[str, list[int]]:
    return {each.subtopology_id: list(each.partitions) for each in listed}
