"""Processes that come and go: each runs one client at a time, of one protocol or the other."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from coterie.coordinator.kernel.request import ClientContext
from coterie.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from tests.simulation.consumer_groups.world import World

# A partition of a topic id.
Partition = tuple[bytes, int]

# After these errors the same request is sent again some time later.
RETRIABLE = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    }
)


class Client(Protocol):
    """A client: what it owns, and what happens to it.

    Attributes:
        member_id: its id; "" before it has one.
        owned: the partitions that it reads.
        uses_classic: whether it uses the classic protocol.
        owns_as_told: whether its group, which is still a consumer group, has told it what it owns.
            An upgrade takes the newest assignment of a classic group, and a downgrade the target of
            a consumer group, which the member may not have received yet.
    """

    member_id: str
    owned: frozenset[Partition]
    uses_classic: bool
    owns_as_told: bool

    def wants(self, topic: str) -> bool:
        """Return whether it subscribes to a topic."""

    def start(self) -> None:
        """Begin to join."""

    def receive(self, request: Any, message: Any) -> None:
        """Take a response."""

    def reconnect(self) -> None:
        """Go on with another connection: the response to the latest request is lost."""

    def resubscribe(self) -> None:
        """Subscribe to other topics."""

    def refresh(self) -> None:
        """Learn that topics have changed."""

    def leave(self) -> None:
        """Leave the group, before the process stops."""

    @property
    def is_settled(self) -> bool:
        """Whether it is a member, and owns what it was assigned."""


class Process:
    """A place for a client.

    Attributes:
        name, group_id, instance_id: its name, its group, and its instance id or None.
        usual_topics: those to which most clients of a static process subscribe; else none.
        client: the client; None while it is down.
        connection: the number of its connection; what belongs to an earlier one is void.
        starts: how many clients it has had.
        context: the client as the coordinator sees it.
    """

    def __init__(self, world: "World", name: str, group_id: str, instance_id: str | None) -> None:
        self.world = world
        self.name = name
        self.group_id = group_id
        self.instance_id = instance_id
        self.usual_topics = [] if instance_id is None else world.some_topics()
        self.client: Client | None = None
        self.connection = 0
        self.starts = 0
        self.context = ClientContext(client_id=name, client_host="/127.0.0.1")

    def start(self) -> None:
        """Start a client, unless one runs."""
        if self.client is None:
            self.starts += 1
            self.connection += 1
            # Each connection has a context of its own.
            self.context = self.context._replace()
            self.client = self.world.new_client(self)
            self.client.start()

    def stop(self, restart_within_ms: int | None = None) -> None:
        """Kill the client; start another one some time later."""
        self.client = None
        self.connection += 1
        if restart_within_ms is not None:
            self.world.after(self.world.rng.randint(1, restart_within_ms), self.start)

    def drop_connection(self) -> None:
        """Lose the connection; the client connects again."""
        self.connection += 1
        self.context = self.context._replace()
        if self.client is not None:
            self.after(self.world.rng.randint(1, 300), self.client.reconnect)

    def request(self, request: Any, version: int) -> None:
        """Send a request."""
        self.world.request(self, request, version)

    def after(self, delay_ms: int, action: Callable[..., None], *arguments: Any) -> None:
        """Schedule an action of the present client."""
        self.world.after(delay_ms, self._act, self.client, action, arguments)

    def _act(self, client: Client, action: Callable[..., None], arguments: Any) -> None:
        if self.client is client:
            action(*arguments)
