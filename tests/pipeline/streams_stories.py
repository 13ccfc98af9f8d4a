"""Streams groups (KIP-1071) on our coordinator in virtual time, and what a broker keeps of them."""

from typing import Any

from coterie.coordinator.groups.streams.tasks import response_tasks
from coterie.protocol.errors import ErrorCode
from tests.pipeline.consumer_stories import Recording
from tests.unit.coordinator.streams.harness import STATEFUL, StreamsHarness

REBALANCE_MS = 60_000


class StreamsStory(Recording, StreamsHarness):
    """A coordinator whose members run tasks and send heartbeats."""

    def __init__(self, topics: dict[str, int], **settings: Any) -> None:
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
            self._tasks[name] = response_tasks(told[0]), response_tasks(told[1])


def _by_name(listed: Any) -> dict[str, list[int]]:
    return {each.subtopology_id: list(each.partitions) for each in listed}
