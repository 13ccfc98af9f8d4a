"""Groups on our coordinator in virtual time, and what a broker keeps of them."""

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from coterie.coordinator.kernel.effects import Effects
from coterie.lab.records import KeptRecords
from coterie.pipeline.records import topic_id_text
from coterie.pipeline.records.epochs import KINDS, epoch_fields
from coterie.pipeline.records.groups import group_fields
from coterie.pipeline.timeline.combined import group_history
from coterie.pipeline.timeline.from_rows import generations_of
from coterie.pipeline.timeline.model import GroupHistory
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.log_records import encode_key, encode_value
from tests.unit.coordinator.consumer.harness import ConsumerHarness, topic_id

HEARTBEAT_MS = 5_000
_TICK_MS = 1_000
_CLASSIC_GROUP = 2
REBALANCE_MS = 60_000


class Recording(ConsumerHarness):
    """A coordinator in virtual time, and all that a broker keeps of what it writes.

    Attributes:
        kept: its group log and its journal.
        rows, logged: its group log as rows of the views `consumer_epochs` and `groups`.
        facts: its facts about the group `g`.
    """

    def __init__(self, topics: dict[str, int], **settings: Any) -> None:
        self.kept = KeptRecords(0)
        self.rows: list[dict[str, Any]] = []
        self.logged: list[dict[str, Any]] = []
        self.facts: list[Any] = []
        self._names: dict[str, str] = {}
        super().__init__(topics, **settings)

    def put_topic(self, name: str, topic_id: bytes, partitions: int) -> None:
        """See `CoordinatorHarness`."""
        text = topic_id_text(topic_id)
        assert text is not None, "a topic has an id"
        self._names[text] = name
        super().put_topic(name, topic_id, partitions)

    def carry_out(self, effects: Effects[Any], to: Any = None) -> None:
        """Keep what a broker writes, too."""
        for append in effects.appends:
            pairs = [
                (encode_key(key), None if value is None else encode_value(value))
                for key, value in append.records
            ]
            self.kept.append(self.now_ms, pairs)
            at = datetime.fromtimestamp(self.now_ms / 1000, UTC)
            for key, value in pairs:
                kind = int.from_bytes(key[:2])
                if kind in KINDS:
                    self.rows.append({"record_ts": at} | epoch_fields(key, value))
                elif kind == _CLASSIC_GROUP:
                    self.logged.append({"record_ts": at} | group_fields(key, value))
        self.kept.add(self.now_ms, effects.events)
        self.facts += [each.fact for each in effects.events if each.group_id == "g"]
        super().carry_out(effects, to)

    def write(self, directory: Path) -> str:
        """Write a data directory with the logs and the ids of the topics; return its path."""
        # A group that comes last, so that the records end now.
        self.enter("last", "orders", group_id="last")
        self.kept.write(str(directory))
        for text, name in self._names.items():
            partition = directory / f"{name}-0"
            partition.mkdir(exist_ok=True)
            (partition / "partition.metadata").write_text(f"version: 0\ntopic_id: {text}\n")
        return str(directory)

    # -- what is read of it ------------------------------------------------------------------------

    def history(self, *, log: bool = True, journal: bool = True) -> GroupHistory:
        """Return the history of the group, from the log, the journal or both."""
        rows, facts = self.rows if log else [], self.facts if journal else []
        logged = generations_of(self.logged) if log else ()
        return group_history("g", facts, logged, rows, self._names)


class ConsumerStory(Recording):
    """A coordinator whose members send heartbeats.

    Attributes:
        slow: the members that report what they were asked to give up as theirs.
        silent: the members that send no heartbeat.
    """

    def __init__(self, topics: Mapping[str, int]) -> None:
        self.slow: set[str] = set()
        self.silent: set[str] = set()
        self._epochs: dict[str, int] = {}
        self._owned: dict[str, dict[bytes, list[int]]] = {}
        self._told: dict[str, dict[bytes, list[int]]] = {}
        super().__init__(dict(topics))

    # -- members -----------------------------------------------------------------------------------

    def start(self, *members: str, topics: Collection[str] = ("orders",), **fields: Any) -> None:
        """Let members join, one right after the other."""
        for name in members:
            response = self.enter(name, *topics, rebalance_timeout_ms=REBALANCE_MS, **fields)
            self._owned[name] = {}
            self._answered(name, response)

    def stop(self, *members: str) -> None:
        """Let members leave."""
        for name in members:
            self.beat(name, -1)
            del self._epochs[name]

    def subscribe(self, name: str, *topics: str) -> None:
        """Let a member subscribe to other topics."""
        owned = self._owned[name]
        response = self.beat(
            name, self._epochs[name], owned,
            subscribed_topic_names=list(topics), rebalance_timeout_ms=REBALANCE_MS,
        )  # fmt: skip
        self._answered(name, response)

    def give_up(self, name: str) -> None:
        """Let a slow member report what it really has, which is what it was told last."""
        self._owned[name] = self._told[name]
        self._beat(name)

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
        response = self.beat(name, self._epochs[name], self._owned[name])
        if response.error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH):
            # Its application has ended meanwhile.
            del self._epochs[name]
            return
        self._answered(name, response)

    def _answered(self, name: str, response: Any) -> None:
        assert not response.error_code, response
        self._epochs[name] = response.member_epoch
        if response.assignment is None:
            return
        given = {each.topic_id: each.partitions for each in response.assignment.topic_partitions}
        self._told[name] = given
        owned = self._owned[name]
        lost = any(
            set(partitions) - set(given.get(topic, ())) for topic, partitions in owned.items()
        )
        if not (lost and name in self.slow):
            self._owned[name] = given


def orders(partitions: int = 6) -> ConsumerStory:
    """Return a cluster with one topic."""
    return ConsumerStory({"orders": partitions})


__all__ = ["HEARTBEAT_MS", "REBALANCE_MS", "ConsumerStory", "Recording", "orders", "topic_id"]
