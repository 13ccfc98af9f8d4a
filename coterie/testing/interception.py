"""Records requests and lets them meet faults, in a table over the broker's table of routes.

The broker has no code for this: without a recording and without faults its own table serves, and
requests cost the same.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from coterie.address import Address
from coterie.protocol.api_keys import SERVED_VERSIONS, ApiKey
from coterie.protocol.apis import response_class
from coterie.protocol.errors import ErrorCode
from coterie.server.broker import Broker
from coterie.server.network.connection import Connection
from coterie.server.network.delayed_response import DelayedResponse
from coterie.server.network.route import Handler
from coterie.server.network.routes import Overlay
from coterie.testing.actions import (
    COORDINATOR_APIS,
    OUTCOMES,
    AnswerError,
    AnswerGarbage,
    CloseAfter,
    CloseBefore,
    CoordinatorLoads,
    CoordinatorMoves,
    CutAnswer,
    Delay,
    NeverAnswer,
    NoLeader,
    Throttle,
)
from coterie.testing.detours import LENGTH_BYTES, Cut, Detour, Dropped, Edit, Edited
from coterie.testing.disk import topic_of
from coterie.testing.edits import (
    add_node,
    name_coordinator,
    node_elsewhere,
    take_leaders_away,
    throttle,
)
from coterie.testing.error_answers import error_answer
from coterie.testing.exchanges import HandledRequest
from coterie.testing.faults import Fault
from coterie.testing.moves import Moves
from coterie.testing.report import Left
from coterie.testing.requests import Request, Requests
from coterie.testing.seen_group import SeenGroup

# The listener of the other address, at which groups are served while their coordinator has moved.
ELSEWHERE = "ELSEWHERE"
_ID_BYTES = 4
# More than a report shows of a test and of its tear-down.
_KEPT_EXCHANGES = 200
_KEPT_FAULTS = 20
# The epoch with which a member joins; one that leaves, or ends its share session, has a lower one.
_JOINS = 0
# The requests by which members join and leave, with their epochs.
_MEMBERSHIP: dict[ApiKey, Callable[[Any], int]] = {
    ApiKey.JOIN_GROUP: lambda _: _JOINS,
    ApiKey.LEAVE_GROUP: lambda _: _JOINS - 1,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: lambda request: request.member_epoch,
    ApiKey.SHARE_GROUP_HEARTBEAT: lambda request: request.member_epoch,
    ApiKey.STREAMS_GROUP_HEARTBEAT: lambda request: request.member_epoch,
    # Its locks end with its session.
    ApiKey.SHARE_ACKNOWLEDGE: lambda request: request.share_session_epoch,
}


class Interception:
    """The faults of a broker, and the recording of its requests.

    Attributes:
        requests: the recorded requests.
        faults: the installed faults, in the order in which requests meet them; the first one that
            meets a request decides.
        exchanges: the newest requests with what became of them.
        elsewhere: the address of the second listener; None before a coordinator has moved.
        moves: what faults move in a cluster; None for a single broker, which pretends it.
        now_ms: the broker's clock.
        received: how many requests were received.
        left: by group, how it was before members left, until another one joins.
        known: the newest faults, also those that are over.
    """

    def __init__(self) -> None:
        """Start without faults."""
        self.requests = Requests()
        self.exchanges: deque[HandledRequest] = deque(maxlen=_KEPT_EXCHANGES)
        self.received = 0
        self.left: dict[str, Left] = {}
        self.known: deque[Fault] = deque(maxlen=_KEPT_FAULTS)
        self._installed = 0
        self.faults: list[Fault] = []
        self.elsewhere: Address | None = None
        self.moves: Moves | None = None
        self.now_ms: Callable[[], int] = lambda: 0
        # The latest request of each connection, and the way of its response if a fault changes it.
        # A request that was postponed arrives here again.
        self._latest: dict[Connection, tuple[HandledRequest, Detour | None]] = {}

    def install(self, fault: Fault, now_ms: int) -> None:
        """Let requests meet a fault, after those that are installed already."""
        self._installed += 1
        self.known.append(fault)
        fault.begin(now_ms, self._installed, lambda: self.received)
        self.faults = [*self.installed(now_ms), fault]

    def end_moves(self, fault: Fault) -> None:
        """Move back what a fault has moved."""
        if self.moves is not None:
            self.moves.end(fault)

    def installed(self, now_ms: int) -> list[Fault]:
        """Return the faults that are not over."""
        return [each for each in self.faults if not each.is_over(now_ms)]

    def clock_changed(self, by_ms: int) -> None:
        """Keep the time that faults have left when the broker gets another clock."""
        for fault in self.faults:
            if fault.until_ms is not None:
                fault.until_ms += by_ms

    def disk_fault(self, kind: type, path: str) -> Fault | None:
        """Return the fault that an operation of the disk meets; see `disk.Faults`."""
        for fault in self.faults:
            if not isinstance(fault.action, kind) or fault.scope.topic not in (
                None,
                topic_of(path),
            ):
                continue
            if fault.is_met(self.now_ms()):
                return fault
        return None

    def lay_over(self, broker: Broker) -> None:
        """Record all requests of a broker from now on, and let them meet the faults."""
        wrappers = {api: partial(self._wrap, api) for api in SERVED_VERSIONS}
        broker.use_routes(Overlay(broker.routes, wrappers))

    def _wrap(self, api: ApiKey, below: Handler) -> Handler:
        def handle(broker: Broker, request: Any, connection: Connection) -> Any:
            return self._handle(api, below, broker, request, connection)

        return handle

    def _handle(
        self, api: ApiKey, below: Handler, broker: Broker, request: Any, connection: Connection
    ) -> Any:
        client = connection.client
        latest = self._latest.get(connection)
        if latest is None:
            connection.when_closed(self, partial(self._forget, connection))
        elif latest[0].request.message is request:
            exchange, detour = latest
            if detour is not None:
                return detour.pass_on(below, broker, request)
            return exchange.passed_on(below, broker, request, connection)
        recorded = Request(
            connection.now_ms,
            api.kafka_name,
            connection.version,
            client.client_id,
            client.connection_id,
            broker.node_id,
            request,
        )
        self.requests.add(recorded)
        exchange = HandledRequest(self.received, api, recorded)
        self.received += 1
        self.exchanges.append(exchange)
        self._latest[connection] = exchange, None
        if api in _MEMBERSHIP:
            self._note_membership(_MEMBERSHIP[api](request), exchange, broker)
        if not self.faults and self.elsewhere is None:
            return exchange.passed_on(below, broker, request, connection)
        return self._with_faults(api, below, broker, exchange, connection)

    def _note_membership(self, epoch: int, exchange: HandledRequest, broker: Broker) -> None:
        """Keep how a group was before members left; a test often ends with that."""
        group_id = exchange.request.group_id
        if epoch == _JOINS:
            self.left.pop(group_id, None)
        if epoch >= _JOINS or group_id in self.left:
            return
        if broker.coordinator.group(group_id) is not None:
            text = SeenGroup(broker, group_id).pictured()
            self.left[group_id] = Left(exchange.request.at_ms, exchange.number, text)

    def _forget(self, connection: Connection) -> None:
        """Forget a connection that was closed."""
        self._latest.pop(connection, None)

    def _with_faults(
        self,
        api: ApiKey,
        below: Handler,
        broker: Broker,
        exchange: HandledRequest,
        connection: Connection,
    ) -> Any:
        """Let a request meet the first fault that covers it, if it meets that one."""
        request = exchange.request.message
        now_ms, moves = broker.now_ms(), self.moves
        if moves is not None:
            moves.end_all(self.faults, now_ms)
        is_elsewhere = connection.client.listener == ELSEWHERE and api in COORDINATOR_APIS
        for fault in self.faults:
            if fault.is_over(now_ms) or not fault.covers(api, exchange.request, broker):
                continue
            if moves is not None and not moves.concern(fault, exchange.request, broker):
                continue
            if is_elsewhere and isinstance(fault.action, CoordinatorMoves):
                # This is where the coordinator has moved to.
                is_elsewhere = False
            elif fault.is_met(now_ms):
                exchange.fault = fault.number
                return self._meet(fault, api, below, broker, exchange, connection)
        if is_elsewhere:
            # It is not there, or not there any more.
            exchange.outcome = ErrorCode.NOT_COORDINATOR.name
            return _answer_error(ErrorCode.NOT_COORDINATOR, api, broker, request, connection)
        if self.elsewhere is not None and api is ApiKey.METADATA:
            edited = self._edited([exchange.answered], broker, connection)
            return self._take(edited, below, broker, exchange, connection)
        return exchange.passed_on(below, broker, request, connection)

    def _meet(
        self,
        fault: Fault,
        api: ApiKey,
        below: Handler,
        broker: Broker,
        exchange: HandledRequest,
        connection: Connection,
    ) -> Any:
        """Let a request meet a fault; return a response or None, as a handler does."""
        request = exchange.request.message
        exchange.outcome = OUTCOMES.get(type(fault.action))
        edits: list[Edit] = []
        match fault.action:
            case CoordinatorMoves() | NoLeader() if self.moves is not None:
                self.moves.meet(fault, exchange.request, broker)
                # This request finds what has moved where it is now.
                broker.loop.call_soon(self.moves.end_all, [fault], broker.now_ms())
                return exchange.passed_on(below, broker, request, connection)
            case Delay(seconds):
                broker.loop.call_later(seconds, connection.postpone(request))
                return None
            case AnswerGarbage(body):
                head = (len(body) + _ID_BYTES).to_bytes(LENGTH_BYTES)
                frame = head + connection.correlation_id.to_bytes(_ID_BYTES) + body
                return _send_frame(connection, frame)
            case CloseBefore():
                connection.close_quietly(abort=True)
                return None
            case NeverAnswer(handle=False):
                connection.delay(DelayedResponse(connection))
                return None
            case NeverAnswer():
                return self._take(Dropped(connection), below, broker, exchange, connection)
            case CloseAfter():
                cut = Cut(connection, broker.loop, 0)
                return self._take(cut, below, broker, exchange, connection)
            case CutAnswer(sent_bytes):
                cut = Cut(connection, broker.loop, sent_bytes)
                return self._take(cut, below, broker, exchange, connection)
            case Throttle(milliseconds):
                edits.append(throttle(milliseconds))
            case CoordinatorMoves() if api is ApiKey.FIND_COORDINATOR:
                assert self.elsewhere is not None, "it listens while such a fault is installed"
                edits.append(name_coordinator(broker, self.elsewhere, fault.scope.group))
            case NoLeader() if api is ApiKey.METADATA:
                edits.append(take_leaders_away(fault.scope.topic))
            case _:
                code = _error_of(fault)
                exchange.outcome = code.name
                return _answer_error(code, api, broker, request, connection)
        edits.append(exchange.answered)
        edited = self._edited(edits, broker, connection)
        return self._take(edited, below, broker, exchange, connection)

    def _edited(self, edits: list[Edit], broker: Broker, connection: Connection) -> Detour:
        """Return the way of a response that is changed; Metadata has both listeners."""
        if self.elsewhere is not None and connection.route.api is ApiKey.METADATA:
            edits = [add_node(node_elsewhere(broker, self.elsewhere)), *edits]
        return Edited(connection, edits)

    def _take(
        self,
        detour: Detour,
        below: Handler,
        broker: Broker,
        exchange: HandledRequest,
        connection: Connection,
    ) -> Any:
        """Let a response take another way."""
        self._latest[connection] = exchange, detour
        return detour.pass_on(below, broker, exchange.request.message)


def _error_of(fault: Fault) -> ErrorCode:
    match fault.action:
        case AnswerError() as action:
            return action.code
        case CoordinatorLoads():
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        case CoordinatorMoves():
            return ErrorCode.NOT_COORDINATOR
        case NoLeader():
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
    raise AssertionError(f"no request meets {fault!r}")


def _answer_error(
    code: ErrorCode, api: ApiKey, broker: Broker, request: Any, connection: Connection
) -> None:
    if api is ApiKey.PRODUCE and request.acks == 0:
        # The client waits for no response; all it can notice is that the connection ends.
        connection.close_quietly(abort=True)
        return
    version = connection.version
    message = error_answer(api, request, code, version, broker, connection.client.listener)
    # Not the framer of the route: that may expect an encoded array.
    framer = response_class(api).framer(version)
    _send_frame(connection, framer(message, connection.correlation_id))


def _send_frame(connection: Connection, frame: bytes) -> None:
    """Answer with a frame, after earlier responses of the connection."""
    response = DelayedResponse(connection)
    response.frame = frame
    connection.delay(response)
