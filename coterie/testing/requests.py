"""The requests that clients have sent, decoded, in order.

Only the newest are kept, so a test that runs for hours does not fill the memory.
"""

from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

from coterie.near_names import did_you_mean
from coterie.protocol.api_keys import SERVED_VERSIONS, ApiKey
from coterie.protocol.wire import Message
from coterie.testing.bounds import check
from coterie.testing.errors import RequestNotSeen, WrongUse, failed

# A group of three members sends about ten requests a second.
_KEPT = 2_000
_BY_NAME = {api.kafka_name.lower(): api for api in SERVED_VERSIONS}


def api_named(name: str) -> ApiKey:
    """Return an API by Kafka's name of it, such as JoinGroup.

    Raises:
        WrongUse: there is none; the text lists similar names.
    """
    found = _BY_NAME.get(name.lower())
    if found is None:
        known = (each.kafka_name for each in SERVED_VERSIONS)
        raise WrongUse(f"'{name}' is no API of Kafka{did_you_mean(name, known, 'APIs')}")
    return found


class Request(NamedTuple):
    """A request.

    Attributes:
        at_ms: when it arrived, in epoch milliseconds.
        api: Kafka's name of its API.
        version: its version.
        client_id: of its header.
        connection_id: the number of its connection; each broker counts its own.
        node_id: the broker that has received it.
        message: its fields, such as `message.group_id`.
    """

    at_ms: int
    api: str
    version: int
    client_id: str
    connection_id: int
    node_id: int
    message: Message

    def __getattr__(self, name: str) -> Any:
        """Return a field of the message: `request.group_id`."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.message, name)

    def __str__(self) -> str:
        group = getattr(self.message, "group_id", None)
        about = f" group={group}" if group else ""
        return f"{self.at_ms / 1000:.3f} {self.client_id} {self.api} v{self.version}{about}"


class Requests:
    """The newest requests of clients."""

    def __init__(self) -> None:
        """Start with none."""
        self._kept: deque[Request] = deque(maxlen=_KEPT)

    def add(self, request: Request) -> None:
        """Keep a request; the oldest is forgotten."""
        self._kept.append(request)

    def clear(self) -> None:
        """Forget all requests."""
        self._kept.clear()

    def __len__(self) -> int:
        return len(self._kept)

    def __iter__(self) -> Iterator[Request]:
        return iter(tuple(self._kept))

    def of(
        self,
        api: str,
        *,
        client_id: str | None = None,
        group: str | None = None,
        version: int | None = None,
    ) -> list[Request]:
        """Return the requests of an API, in order.

        Args:
            api: Kafka's name, such as JoinGroup.
            client_id, group, version: leave out those with others.

        Raises:
            WrongUse: the API does not exist, or no version has this number.
        """
        check(version=version)
        name = api_named(api).kafka_name
        return [
            each
            for each in self
            if each.api == name
            and client_id in (None, each.client_id)
            and version in (None, each.version)
            and (group is None or getattr(each.message, "group_id", None) == group)
        ]

    def last(self, api: str, *, client_id: str | None = None, group: str | None = None) -> Request:
        """Return the newest request of an API.

        Raises:
            RequestNotSeen: there is none.
        """
        found = self.of(api, client_id=client_id, group=group)
        if not found:
            seen = ", ".join(sorted({each.api for each in self})) or "none"
            who = "" if client_id is None else f" of client '{client_id}'"
            about = "" if group is None else f" for group '{group}'"
            raise failed(RequestNotSeen(f"no {api}{who}{about} was sent; APIs seen: {seen}"))
        return found[-1]
