"""What the control port adds to a broker of a test: numbers for its faults, and whole states.

Everything else that the port can do are methods of `coterie.testing` themselves.
"""

import threading
from itertools import count
from typing import Any, NamedTuple

from coterie import __version__
from coterie.testing.actions import Action
from coterie.testing.bounds import check
from coterie.testing.errors import WrongUse
from coterie.testing.faults import Fault, Scope
from coterie.testing.groups import Group
from coterie.testing.members import Member, Partition
from coterie.testing.requests import Request
from coterie.testing.views import Views


class Health(NamedTuple):
    """The process runs and answers.

    Attributes:
        version: of Coterie.
    """

    version: str


class GroupState(NamedTuple):
    """A group, as it is now; one that does not exist is Dead.

    Attributes:
        group_id: its id.
        state: Kafka's name of its state.
        generation: its generation; -1 if the group does not exist.
        members: its members, in the order in which they joined.
        assignment: the member id that each assigned partition belongs to.
        offsets: its committed offsets.
        lag: how many records follow each committed offset.
    """

    group_id: str
    state: str
    generation: int
    members: tuple[Member, ...]
    assignment: dict[Partition, str]
    offsets: dict[Partition, int]
    lag: dict[Partition, int]


class FaultState(NamedTuple):
    """A fault that was installed.

    Attributes:
        fault_id: its number.
        action: what goes wrong.
        scope: the requests that it concerns.
        hits: how many requests or operations of the disk have met it.
        until_ms: its last moment by the broker's clock; null without a time limit.
        is_removed: whether it was removed.
    """

    fault_id: int
    action: Action
    scope: Scope
    hits: int
    until_ms: int | None
    is_removed: bool


class ProcessControl:
    """A process under control: of one broker, or of several.

    Attributes:
        is_closed: whether the brokers were closed for good.
    """

    def __init__(self, kafka: Views) -> None:
        """Control what was started."""
        self.is_closed = False
        self._kafka = kafka
        self._faults: dict[int, Fault] = {}
        self._fault_ids = count(1)
        # Requests have threads of their own, and so has the console.
        self._lock = threading.Lock()

    def subject(self, name: str, arguments: dict[str, Any]) -> Any:
        """Return the object whose method an operation calls, and take its id out of the arguments.

        Args:
            name: the class of the object, as the operation names it.
            arguments: of the operation, by name.

        Raises:
            WrongUse: there is no such object.
        """
        match name:
            case "Control":
                return self
            case "Group":
                return self._kafka.group(arguments.pop("group_id"))
            case "Fault":
                return self.fault(arguments.pop("fault_id"))
            case "Requests":
                return self._kafka.requests
        return self._kafka

    def health(self) -> Health:
        """Return whether the process answers; the broker may be down."""
        return Health(__version__)

    def close(self) -> None:
        """Stop the broker for good, check that nothing of it is left, and end the process."""
        self.is_closed = True
        self._kafka.close()

    def requests(self) -> list[Request]:
        """Return the newest requests of clients, in order."""
        return list(self._kafka.requests)

    # --- faults -----------------------------------------------------------------------------------

    def fault(self, fault_id: int) -> Fault:
        """Return a fault by its number, also after it was removed.

        Raises:
            WrongUse: there is none.
        """
        check(fault_id=fault_id)
        found = self._faults.get(fault_id)
        if found is None:
            known = ", ".join(map(str, self._faults)) or "none"
            raise WrongUse(f"there is no fault {fault_id}; installed so far: {known}")
        return found

    # --- what methods return, as data -------------------------------------------------------------

    def fault_state(self, fault: Fault) -> FaultState:
        """Return the state of a fault; one that is new here gets a number."""
        with self._lock:
            fault_id = next((key for key, each in self._faults.items() if each is fault), None)
            if fault_id is None:
                fault_id = next(self._fault_ids)
                self._faults[fault_id] = fault
        return FaultState(
            fault_id, fault.action, fault.scope, fault.hits, fault.until_ms, fault.is_removed
        )

    def fault_states(self, faults: list[Fault]) -> list[FaultState]:
        """Return the states of faults."""
        return [self.fault_state(each) for each in faults]

    def group_state(self, group: Group) -> GroupState:
        """Return the state of a group."""
        members = group.members
        owners = {part: each.member_id for each in members for part in each.assignment}
        return GroupState(
            group.group_id,
            group.state,
            group.generation,
            members,
            owners,
            group.offsets,
            group.lag,
        )
