"""What clients were told, and what must hold of it.

K3   an acknowledged record is in the log at its offset, once, unless its end was cut off
K4   commits and fetches of an offset are linearizable
K7   in a generation each partition has one owner, whichever broker has coordinated it
K12  who leads a partition in an epoch is the same in all answers, and what the cluster has decided
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from coterie.protocol.messages.fetch import FetchResponse
from coterie.protocol.messages.metadata import MetadataResponse
from coterie.protocol.messages.produce import ProduceResponse
from tests.histories.register import INITIAL, Kind, Operation, contradiction
from tests.simulation.brokers.clients import errors_of
from tests.simulation.checks.violation import Violation, require

# The leader of an epoch, by topic, partition and epoch; -1 for none.
Leaders = dict[tuple[str, int, int], int]


class Write:
    """A commit whose answer has not come. One that is never acknowledged may have happened.

    Attributes:
        operation: what is known of it.
    """

    def __init__(self, operation: Operation, shown: Callable[[int], None]) -> None:
        """Note that it was sent; `shown` is called when it is acknowledged."""
        self.operation = operation
        self._shown = shown

    def answered(self, end: int, *, acknowledged: bool) -> None:
        """Note the answer."""
        if acknowledged:
            self.operation = self.operation._replace(end=end)
            self._shown(self.operation.value)


def _ignored(_: int) -> None:
    """Take a value of which nothing is required yet."""


class Register:
    """The history of a committed offset.

    Attributes:
        reads, commits: the calls.
    """

    def __init__(self, shown: Callable[[int], None]) -> None:
        self.reads: list[Operation] = []
        self.commits: list[Write] = []
        # Called with each value that a client was shown (K5).
        self._shown = shown

    @property
    def history(self) -> list[Operation]:
        """All calls."""
        return [*self.reads, *(each.operation for each in self.commits)]

    def writes(self, value: int, begin: int, *, by_marker: bool = False) -> Write:
        """Note a commit that begins.

        Args:
            value: the offset.
            begin: when.
            by_marker: whether it may be acknowledged before it is in the log: the end of a
                transaction is, when it is decided, and before the markers.
        """
        shown = _ignored if by_marker else self._shown
        write = Write(Operation(Kind.WRITE, value, begin), shown)
        self.commits.append(write)
        return write

    def glanced(self, value: int) -> None:
        """Note an answer that may be older than a commit that was acknowledged."""
        if value != INITIAL:
            self._shown(value)

    def read(self, name: str, value: int, begin: int, end: int) -> None:
        """Note an answer to a fetch."""
        self.glanced(value)
        self.reads.append(Operation(Kind.READ, value, begin, end, name))


class Ledger:
    """What the clients of a run were told.

    Attributes:
        leaders: what the cluster has decided; see `Checks`.
        records: the acknowledged values, by partition and offset.
        answers: how often each API was answered with each error.
    """

    def __init__(self, leaders: Leaders, shown: Callable[[str, int], None]) -> None:
        """Know nothing yet.

        Args:
            leaders: what the cluster has decided; see `Checks`.
            shown: called with each committed offset that a client was shown, and its group.
        """
        self.leaders = leaders
        self._shown = shown
        self.records: dict[tuple[int, int], bytes] = {}
        self.answers: dict[str, int] = {}
        self._registers: dict[str, Register] = {}
        self._owners: dict[tuple[str, int, int], str] = {}
        self._producer_ids: dict[int, str] = {}

    # --- records ----------------------------------------------------------------------------------

    def produced(self, index: int, offset: int, value: bytes) -> None:
        """Note an acknowledged record."""
        if offset < 0:
            # Sent again, long after it was written.
            return
        before = self.records.setdefault((index, offset), value)
        require(before == value, "K3", f"{value!r} has offset {offset} of {before!r}")

    def cut(self, index: int, end_offset: int) -> None:
        """Forget the records that an unclean election has taken away."""
        gone = [at for at in self.records if at[0] == index and at[1] >= end_offset]
        for each in gone:
            del self.records[each]

    def took_producer_id(self, name: str, producer_id: int) -> None:
        """Note a producer id: no two producers get the same."""
        before = self._producer_ids.setdefault(producer_id, name)
        require(before == name, "K3", f"{name} and {before} have producer id {producer_id}")

    # --- groups -----------------------------------------------------------------------------------

    def register(self, group_id: str) -> Register:
        """Return the history of the offset of a group."""
        found = self._registers.get(group_id)
        if found is None:
            found = self._registers[group_id] = Register(partial(self._shown, group_id))
        return found

    def assigned(self, group_id: str, generation: int, name: str, indexes: tuple[int, ...]) -> None:
        """Note what a member of a classic group was assigned."""
        for index in indexes:
            owner = self._owners.setdefault((group_id, generation, index), name)
            text = f"{name} and {owner} own {index} in generation {generation} of {group_id}"
            require(owner == name, "K7", text)

    def check_registers(self) -> None:
        """Check all histories (K4)."""
        for group_id, register in self._registers.items():
            found = contradiction(register.history)
            if found is not None:
                raise Violation("K4", f"{group_id}: {found}")

    # --- answers ----------------------------------------------------------------------------------

    def answered(self, message: Any) -> list[int]:
        """Note an answer of any broker, check which leaders it names (K12); return its errors."""
        name = type(message).__name__.removesuffix("Response")
        errors = list(errors_of(message))
        for error in errors:
            key = f"{name} {error}"
            self.answers[key] = self.answers.get(key, 0) + 1
        if isinstance(message, MetadataResponse):
            for topic in message.topics:
                for each in topic.partitions:
                    self._named(topic.name, each.partition_index, each.leader_id, each.leader_epoch)
        elif isinstance(message, ProduceResponse):
            for data in message.responses:
                for part in data.partition_responses:
                    self._hinted(data.name, part.index, part.current_leader)
        elif isinstance(message, FetchResponse):
            for read in message.responses:
                for found in read.partitions:
                    self._hinted(read.topic, found.partition_index, found.current_leader)
        return errors

    def _hinted(self, topic: str, index: int, leader: Any) -> None:
        if leader is not None and leader.leader_epoch >= 0:
            self._named(topic, index, leader.leader_id, leader.leader_epoch)

    def _named(self, topic: str | None, index: int, leader_id: int, epoch: int) -> None:
        if topic is None or epoch < 0:
            return
        decided = self.leaders.get((topic, index, epoch))
        if decided is None and (topic, index, epoch + 1) in self.leaders:
            # It was decided and overtaken in one turn of the event loop.
            return
        text = f"{leader_id} leads {topic}-{index} in epoch {epoch}, and not {decided}"
        require(decided == leader_id, "K12", text)
