"""The conversation between the client and the scripted broker, in the order in which it took place.

Every request, response, connection and remark has a place, a number that grows. "After" means a
larger place, so two events of the same millisecond have an order, too.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from coterie.protocol.api_keys import ApiKey
from coterie.testing.requests import api_named

# Places of events that did not take place.
NEVER = 1 << 60


@dataclass(eq=False, slots=True)
class ClientExchange:
    """A request and its response.

    Attributes:
        place, at_s: when the request came; seconds since the conversation began.
        speaker: "client", or the name of a scripted member.
        connection, node: the number of the connection, and the node that it goes to.
        api, version, client_id: of the request.
        request: the request, decoded.
        response: the response, decoded; None if none was sent.
        answered_place, answered_s: when the response was sent; NEVER and infinity if it was not.
        script: what the script did to it, for people; "" if nothing.
    """

    place: int
    at_s: float
    speaker: str
    connection: int
    node: int
    api: ApiKey
    version: int
    client_id: str | None
    request: Any
    response: Any = None
    answered_place: int = NEVER
    answered_s: float = float("inf")
    script: str = ""

    @property
    def error(self) -> int:
        """The error code of the response as a whole; 0 if it has none, or was not sent."""
        return int(getattr(self.response, "error_code", 0))

    def __repr__(self) -> str:
        return f"Exchange({self.place}, {self.api.kafka_name} v{self.version})"


class Remark(NamedTuple):
    """Something else that took place: a connection, a line of output, an act of the scenario.

    Attributes:
        place, at_s: when.
        kind: "connected", "closed", "refused", "malformed", "output", "ended" or "scenario".
        text: for people.
        connection: the number of the connection; 0 for none.
        node: the node of the connection.
    """

    place: int
    at_s: float
    kind: str
    text: str
    connection: int = 0
    node: int = 0


class Conversation:
    """Everything that took place in one run.

    Attributes:
        exchanges: the requests of the client, in order.
        others: those of scripted members.
        remarks: everything else.
    """

    def __init__(self, clock_s: Callable[[], float]) -> None:
        """Begin now."""
        self._clock_s = clock_s
        self._began_s = clock_s()
        self._place = 0
        self.exchanges: list[ClientExchange] = []
        self.others: list[ClientExchange] = []
        self.remarks: list[Remark] = []

    @property
    def now(self) -> int:
        """The place of the newest event."""
        return self._place

    @property
    def elapsed_s(self) -> float:
        """The seconds since the beginning."""
        return self._clock_s() - self._began_s

    def request(
        self,
        speaker: str,
        connection: int,
        node: int,
        api: ApiKey,
        version: int,
        client_id: str | None,
        request: Any,
    ) -> ClientExchange:
        """Add a request; return its exchange."""
        self._place += 1
        now = self._place, self.elapsed_s
        exchange = ClientExchange(*now, speaker, connection, node, api, version, client_id, request)
        (self.exchanges if speaker == "client" else self.others).append(exchange)
        return exchange

    def answered(self, exchange: ClientExchange, response: Any) -> None:
        """Note that a response is being sent."""
        self._place += 1
        exchange.response = response
        exchange.answered_place = self._place
        exchange.answered_s = self.elapsed_s

    def remark(self, kind: str, text: str, connection: int = 0, node: int = 0) -> Remark:
        """Add something else; see `Remark`."""
        self._place += 1
        remark = Remark(self._place, self.elapsed_s, kind, text, connection, node)
        self.remarks.append(remark)
        return remark

    def of(self, *apis: str, after: int = 0, before: int = NEVER) -> list[ClientExchange]:
        """Return the client's requests of some APIs between two places, in order."""
        wanted = {api_named(each) for each in apis}
        return [
            each for each in self.exchanges if each.api in wanted and after < each.place < before
        ]

    def first(self, *apis: str, after: int = 0) -> ClientExchange | None:
        """Return the client's first request of one of the APIs after a place."""
        return next(iter(self.of(*apis, after=after)), None)

    def last(self, *apis: str) -> ClientExchange | None:
        """Return the client's last request of one of the APIs."""
        return next(iter(reversed(self.of(*apis))), None)

    def of_kind(self, kind: str, after: int = 0) -> list[Remark]:
        """Return the remarks of a kind after a place."""
        return [each for each in self.remarks if each.kind == kind and each.place > after]
