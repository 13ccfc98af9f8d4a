"""Views of the groups, faults and requests of a broker in another process."""

from collections.abc import Iterator
from typing import Any

from coterie.control.link import Link, all_operations, over_link
from coterie.control.operations import ControlOperation
from coterie.control.process_control import FaultState
from coterie.testing.faults import Fault
from coterie.testing.group_history import RecordedGroup
from coterie.testing.groups import Group
from coterie.testing.requests import Request, Requests


@over_link("Group")
class ProcessGroup(Group):
    """A view of a group in another process; see `Group`."""

    def __init__(self, link: Link, group_id: str) -> None:
        """Look at a group; see `ProcessBroker.group`."""
        self.group_id = group_id
        self.link_ = link

    def _recorded(self) -> RecordedGroup:
        return RecordedGroup(self.history, self.moves)

    def request_(self, operation: ControlOperation, arguments: dict[str, Any]) -> Any:
        """Send a request about this group."""
        given = {"group_id": self.group_id, **arguments}
        result = self.link_.call(operation.operation_id, given)
        return self if operation.returns is Group else result


@over_link("Requests")
class ProcessRequests(Requests):
    """The newest requests of clients to a broker in another process."""

    def __init__(self, link: Link) -> None:
        """Read them over a link."""
        self.link_ = link

    def request_(self, operation: ControlOperation, arguments: dict[str, Any]) -> Any:
        """Send a request about requests."""
        return self.link_.call(operation.operation_id, arguments)

    def __iter__(self) -> Iterator[Request]:
        return iter(self.link_.call("Control.requests", {}))

    def __len__(self) -> int:
        return sum(1 for _ in self)


@over_link("Fault")
class ProcessFault(Fault):
    """A fault of a broker in another process; it ends with that process."""

    def __init__(self, link: Link, state: FaultState) -> None:
        """Look at a fault that is installed."""
        self.action = state.action
        self.scope = state.scope
        self.link_ = link
        self.fault_id = state.fault_id
        self.until_ms = state.until_ms
        self.explain = lambda _: f"no request has met {self}, whose process has ended"
        # The last state, once the process has ended.
        self._last: FaultState | None = None

    def request_(self, operation: ControlOperation, arguments: dict[str, Any]) -> Any:
        """Send a request about this fault; its process must run."""
        return self.link_.call(operation.operation_id, {"fault_id": self.fault_id, **arguments})

    @property
    def hits(self) -> int:  # type: ignore[override]  # counted in the other process
        """How many requests have met it."""
        return self._state.hits

    @property
    def is_removed(self) -> bool:
        """Whether it meets no request any more."""
        return self._state.is_removed

    def remove(self) -> None:
        """Let requests be handled as usual from now on."""
        if self._last is None:
            self.link_.call("Fault.remove", {"fault_id": self.fault_id})

    def must_have_hit(self, times: int | None = None) -> None:
        """Check that requests have met it; see `Fault`."""
        if self._last is None:
            self.request_(all_operations()["Fault.must_have_hit"], {"times": times})
        else:
            super().must_have_hit(times)

    def end(self) -> None:
        """Keep the state: the process is about to end, and the fault with it."""
        if self._last is None:
            self._last = self._state._replace(is_removed=True)

    @property
    def _state(self) -> FaultState:
        if self._last is not None:
            return self._last
        state: FaultState = self.link_.call("Control.fault", {"fault_id": self.fault_id})
        return state
