"""A coordinator for tests of its events."""

from typing import Any

from coterie.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from coterie.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupRequestMember
from tests.unit.coordinator.desk import SALES, Desk


class Listener(Desk):
    """A coordinator whose events a test takes step by step."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.events.clear()  # of the first load

    def heard(self) -> list[Any]:
        """The facts since the last time."""
        facts = [event.fact for event in self.events]
        self.events.clear()
        return facts

    def names(self) -> list[str]:
        """The names of the facts since the last time."""
        names = [event.name for event in self.events]
        self.events.clear()
        return names

    def rejoin(
        self,
        name: str,
        *,
        protocols: tuple[tuple[str, bytes], ...] = (("range", SALES),),
        reason: str | None = None,
        to: str = "",
        protocol_type: str = "consumer",
    ) -> Any:
        """A member joins again, and says why."""
        request = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=60_000,
            member_id=self.id_of(name),
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name=n, metadata=m) for n, m in protocols],
            reason=reason,
        )
        return self.send(request, 9, to or f"{name} rejoins")

    def remove(
        self, *members: tuple[str, str | None], reason: str | None = None, to: str = "operator"
    ) -> Any:
        """A LeaveGroup of (member id, instance id)."""
        listed = [
            LeaveGroupRequestMember(member_id=member, group_instance_id=instance, reason=reason)
            for member, instance in members
        ]
        return self.send(LeaveGroupRequest(group_id="g", members=listed), 5, to)


def told(fact: Any, *names: str) -> dict[str, Any]:
    """Some fields of a fact."""
    return {name: getattr(fact, name) for name in names}
