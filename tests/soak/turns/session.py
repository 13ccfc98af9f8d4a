"""What the verbs of one server share: its sizes, how to send requests, and what they have made."""

import socket
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.errors import ErrorCode
from tests.soak.turns.answers import NONE, Answers
from tests.soak.turns.client import Client
from tests.soak.turns.requests import ELEMENTS, frame, newest

# One in so many partitions is one of a topic of the server itself, or of what verbs create.
_OTHER_PARTITIONS = 20
# So many partitions may one request create.
PARTITIONS_A_REQUEST = 9_900
# No transaction of the hunt times out, but for those of the verb that is about that.
LONG_TIMEOUT_MS = 900_000


class Sizes(NamedTuple):
    """The limits that the server is brought to, and the sizes of requests.

    Attributes:
        partitions, groups, transactional_ids, connections: of the server.
        elements: of a request.
        pipelined: requests that one connection sends at once.
        request_bytes: the size of a large Produce or Fetch.
        members: of a large consumer group.
    """

    partitions: int = 20_000
    groups: int = 100_000
    transactional_ids: int = 100_000
    connections: int = 5_000
    elements: int = ELEMENTS
    pipelined: int = 4_000
    request_bytes: int = 50 << 20
    members: int = 1_000

    def scaled(self, factor: float) -> "Sizes":
        """Return sizes that are smaller."""
        return Sizes(*(max(1, int(each * factor)) for each in self))

    @property
    def wide(self) -> int:
        """Partitions of the topic `w`."""
        return min(self._for_topics // 2, PARTITIONS_A_REQUEST)

    @property
    def topics(self) -> int:
        """Topics of one partition."""
        return self._for_topics - self.wide

    @property
    def _for_topics(self) -> int:
        return self.partitions - self.partitions // _OTHER_PARTITIONS


class Verb(NamedTuple):
    """One row.

    Attributes:
        name: what is done.
        run: does it and returns what was answered.
        expected: the error code of most elements of the answers.
        is_needed: later verbs need what it does.
    """

    name: str
    run: Callable[[], Answers]
    expected: str = NONE
    is_needed: bool = False


class Session:
    """One server during the hunt.

    Attributes:
        port: its port.
        sizes: its sizes.
        data_dir: its data directory.
        idle: connections that do nothing.
        clients: connections that several verbs use, the last of which may not be run.
        producers: the producer id and epoch of each transactional id, by its number.
        members: the members of the new groups, as Heartbeat names them.
    """

    def __init__(self, port: int, sizes: Sizes, data_dir: Path) -> None:
        self.port = port
        self.data_dir = data_dir
        self.sizes = sizes
        self.idle: list[socket.socket] = []
        self.clients: list[Client] = []
        self.producers: dict[int, tuple[int, int]] = {}
        self.members: list[dict[str, Any]] = []

    def close(self) -> None:
        """Close the connections."""
        for opened in self.idle:
            opened.close()
        self.idle.clear()
        for client in self.clients:
            client.close()
        self.clients.clear()

    def verb(
        self,
        name: str,
        api: ApiKey,
        requests: Callable[[], Iterable[bytes]],
        *,
        version: int | None = None,
        expected: ErrorCode = ErrorCode.NONE,
    ) -> Verb:
        """Return the verb that sends requests over one connection, all at once."""
        chosen = newest(api) if version is None else version
        return Verb(name, lambda: self.exchange(api, chosen, list(requests())), expected.name)

    def exchange(self, api: ApiKey, version: int, requests: list[bytes]) -> Answers:
        """Send requests over a new connection, all at once."""
        with Client(self.port) as client:
            return Answers(api, version, client.exchange(requests))

    def commits(self, first: int, last: int) -> Iterator[bytes]:
        """Yield a commit of one offset of each of some groups."""
        offset = {"partition_index": 0, "committed_offset": 5, "committed_metadata": ""}
        topics = [{"name": "s0", "partitions": [offset]}]
        version = newest(ApiKey.OFFSET_COMMIT)
        for number in range(first, last):
            yield frame(ApiKey.OFFSET_COMMIT, version, group_id=f"g{number}", topics=topics)

    def ids(self, numbers: Iterable[int], timeout_ms: int = LONG_TIMEOUT_MS) -> Answers:
        """Get a producer id and epoch for each of some transactional ids, and remember them."""
        api, asked = ApiKey.INIT_PRODUCER_ID, list(numbers)
        version = newest(api)
        requests = [
            frame(api, version, transactional_id=f"x{number}", transaction_timeout_ms=timeout_ms)
            for number in asked
        ]
        answers = self.exchange(api, version, requests)
        got = [
            (answer.producer_id, answer.producer_epoch)
            for answer, _ in answers.decoded()
            if not answer.error_code
        ]
        if len(got) == len(asked):
            self.producers.update(zip(asked, got, strict=True))
        return answers


def no_answers() -> Answers:
    """Return what a verb without requests was answered."""
    return Answers(ApiKey.API_VERSIONS, 0, Counter())
