"""The verbs of the hunt, in the order in which they are run.

First those that bring a new server to its limits, then every API with its largest request, then
many small requests at once, and last what deletes.
"""

import select
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from coterie.protocol.api_keys import SERVED_VERSIONS, ApiKey
from coterie.protocol.records import Compression
from tests.soak.turns.client import Client, decoded, outcome
from tests.soak.turns.requests import ELEMENTS, frame, has_arrays, is_nested, largest, newest
from tests.unit.server.produced import batch

# Old records would be rolled and removed at once.
_NOW_MS = time.time_ns() // 1_000_000
# Partitions of topics of the server itself, and some for what verbs create.
_OTHER_PARTITIONS = 1_000
# So many partitions may one request create.
_PARTITIONS_A_REQUEST = 9_900
# The server's backlog is 4,096.
_CONNECTIONS_AT_ONCE = 3_000
# Time after which transactions of the hunt end, and how often the server looks for such.
TRANSACTION_TIMEOUT_MS = 4_000
TIMED_OUT_EVERY_MS = 5_000

# These are verbs of their own, or delete, which comes last.
_APART = {ApiKey.CREATE_TOPICS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}
_LAST = (
    ApiKey.CREATE_PARTITIONS,
    ApiKey.DELETE_RECORDS,
    ApiKey.OFFSET_DELETE,
    ApiKey.DELETE_GROUPS,
    ApiKey.DELETE_TOPICS,
)


class Sizes(NamedTuple):
    """The limits that the server is brought to, and the sizes of requests.

    Attributes:
        partitions, groups, transactional_ids, connections: of the server.
        elements: of a request.
        pipelined: requests that one connection sends at once.
        request_bytes: the size of a large Produce or Fetch.
    """

    partitions: int = 20_000
    groups: int = 100_000
    transactional_ids: int = 100_000
    connections: int = 5_000
    elements: int = ELEMENTS
    pipelined: int = 4_000
    request_bytes: int = 50 << 20

    def scaled(self, factor: float) -> "Sizes":
        """Return sizes that are smaller."""
        return Sizes(*(max(1, int(each * factor)) for each in self))

    @property
    def wide(self) -> int:
        """Partitions of the topic `w`."""
        return min(self.partitions // 4, _PARTITIONS_A_REQUEST)

    @property
    def topics(self) -> int:
        """Topics of one partition."""
        return max(self.partitions - self.wide - _OTHER_PARTITIONS, self.partitions // 2)


class Verb(NamedTuple):
    """One row.

    Attributes:
        name: what is done.
        run: does it and returns what was answered.
        is_needed: later verbs need what it does.
    """

    name: str
    run: Callable[[], str]
    is_needed: bool = False


class Verbs:
    """The verbs for one server."""

    def __init__(self, port: int, sizes: Sizes) -> None:
        self._port = port
        self._sizes = sizes
        self._idle: list[socket.socket] = []

    def all(self) -> Iterator[Verb]:
        """Yield the verbs in their order."""
        for verb in self._filling():
            yield verb._replace(is_needed=True)
        yield from self._largest_of_each()
        yield from self._many_at_once()
        yield from self._deleting()

    def close(self) -> None:
        """Close the idle connections."""
        for opened in self._idle:
            opened.close()
        self._idle.clear()

    # --- to the limits ----------------------------------------------------------------------------

    def _filling(self) -> Iterator[Verb]:
        sizes = self._sizes
        yield Verb("FindCoordinator and InitProducerId, the first", self._first_id)
        wide = [{"name": "w", "num_partitions": sizes.wide, "replication_factor": 1}]
        version = newest(ApiKey.CREATE_TOPICS)
        fields = {"topics": wide, "timeout_ms": 300_000}
        request = frame(ApiKey.CREATE_TOPICS, version, **fields)
        yield self._pipelined("CreateTopics, many partitions", ApiKey.CREATE_TOPICS, [request])
        for first in range(0, sizes.topics, _PARTITIONS_A_REQUEST):
            count = min(_PARTITIONS_A_REQUEST, sizes.topics - first)
            topics = [
                {"name": f"s{number}", "num_partitions": 1, "replication_factor": 1}
                for number in range(first, first + count)
            ]
            fields = {"topics": topics, "timeout_ms": 300_000}
            request = frame(ApiKey.CREATE_TOPICS, version, **fields)
            yield self._pipelined(f"CreateTopics of {count:,}", ApiKey.CREATE_TOPICS, [request])
        yield self._pipelined("OffsetCommit, the first", ApiKey.OFFSET_COMMIT, self._commits(0, 1))
        yield self._pipelined(
            "OffsetCommit, pipelined, of new groups",
            ApiKey.OFFSET_COMMIT,
            self._commits(1, sizes.groups - sizes.pipelined),
        )
        yield self._pipelined(
            "InitProducerId, pipelined, of new ids",
            ApiKey.INIT_PRODUCER_ID,
            self._init(1, sizes.transactional_ids),
        )
        yield Verb(f"{sizes.connections:,} connections", self._connect)

    def _commits(self, first: int, last: int) -> Iterator[bytes]:
        offset = {"partition_index": 0, "committed_offset": 5, "committed_metadata": ""}
        topics = [{"name": "s0", "partitions": [offset]}]
        for number in range(first, last):
            yield frame(
                ApiKey.OFFSET_COMMIT,
                newest(ApiKey.OFFSET_COMMIT),
                group_id=f"g{number}",
                topics=topics,
            )

    def _init(self, first: int, last: int, timeout_ms: int = 60_000) -> Iterator[bytes]:
        for number in range(first, last):
            yield frame(
                ApiKey.INIT_PRODUCER_ID,
                newest(ApiKey.INIT_PRODUCER_ID),
                transactional_id=f"x{number}",
                transaction_timeout_ms=timeout_ms,
            )

    def _first_id(self) -> str:
        """Let `__transaction_state` be created, and ask until its partition is loaded."""
        api, version = ApiKey.INIT_PRODUCER_ID, newest(ApiKey.INIT_PRODUCER_ID)
        finding = newest(ApiKey.FIND_COORDINATOR)
        requests = list(self._init(0, 1))
        with Client(self._port) as client:
            client.call(ApiKey.FIND_COORDINATOR, finding, key_type=1, coordinator_keys=["x0"])
            while decoded(api, version, client.exchange(requests)[0]).error_code:
                time.sleep(0.01)
        return ""

    def _connect(self) -> str:
        """Open connections that stay idle, as many at once as the system keeps for the server."""
        answer = ""
        while left := self._sizes.connections - len(self._idle):
            answer = self._connect_some(min(left, _CONNECTIONS_AT_ONCE))
        return answer

    def _connect_some(self, count: int) -> str:
        connecting = select.poll()
        for _ in range(count):
            opened = socket.socket()
            opened.setblocking(False)
            opened.connect_ex(("127.0.0.1", self._port))
            self._idle.append(opened)
            connecting.register(opened, select.POLLOUT)
        left = {opened.fileno() for opened in self._idle[-count:]}
        while left:
            for number, _ in connecting.poll():
                connecting.unregister(number)
                left.discard(number)
        # They are accepted when the last one has an answer.
        last = self._idle[-1]
        last.setblocking(True)
        last.sendall(frame(ApiKey.API_VERSIONS, 0))
        return f"{len(last.recv(1 << 16)):,} bytes"

    # --- every API --------------------------------------------------------------------------------

    def _largest_of_each(self) -> Iterator[Verb]:
        for api in SERVED_VERSIONS:
            if api not in _APART and api not in _LAST and has_arrays(api):
                yield from self._largest(api)
        yield from self._without_bounds()

    def _largest(self, api: ApiKey, first: int = 0) -> Iterator[Verb]:
        for deep in (False, True) if is_nested(api) else (False,):
            request = largest(api, deep=deep, elements=self._sizes.elements, first=first)
            shape = "deep" if deep else "wide"
            yield self._pipelined(f"{api.kafka_name}, {shape}", api, [request])

    def _without_bounds(self) -> Iterator[Verb]:
        """Yield requests of a few bytes for all that there is."""
        for api, fields in (
            (ApiKey.METADATA, {"topics": None}),
            (ApiKey.LIST_GROUPS, {}),
            (ApiKey.LIST_TRANSACTIONS, {}),
            (ApiKey.DESCRIBE_LOG_DIRS, {"topics": None}),
            (ApiKey.DESCRIBE_CLUSTER, {}),
            (ApiKey.DESCRIBE_CLIENT_QUOTAS, {}),
            (ApiKey.LIST_CONFIG_RESOURCES, {}),
            (ApiKey.LIST_PARTITION_REASSIGNMENTS, {"topics": None, "timeout_ms": 1_000}),
            (ApiKey.ELECT_LEADERS, {"topic_partitions": None}),
        ):
            yield self._pipelined(
                f"{api.kafka_name} of all", api, [frame(api, newest(api), **fields)]
            )
        groups = [
            {"group_id": f"g{number}", "topics": None} for number in range(self._sizes.elements)
        ]
        version = newest(ApiKey.OFFSET_FETCH)
        request = frame(ApiKey.OFFSET_FETCH, version, groups=groups)
        yield self._pipelined("OffsetFetch of all offsets", ApiKey.OFFSET_FETCH, [request])

    # --- many at once -----------------------------------------------------------------------------

    def _many_at_once(self) -> Iterator[Verb]:
        sizes = self._sizes
        for api in SERVED_VERSIONS:
            if api not in _APART and not has_arrays(api):
                requests = [
                    largest(api, first=number % sizes.groups) for number in range(sizes.pipelined)
                ]
                yield self._pipelined(f"{api.kafka_name}, pipelined", api, requests)
        new = range(sizes.groups - sizes.pipelined, sizes.groups)
        yield self._pipelined(
            "JoinGroup, pipelined, of new groups",
            ApiKey.JOIN_GROUP,
            [
                frame(
                    ApiKey.JOIN_GROUP,
                    3,
                    group_id=f"g{number}",
                    session_timeout_ms=60_000,
                    rebalance_timeout_ms=60_000,
                    protocol_type="consumer",
                    protocols=[{"name": "range", "metadata": b""}],
                    member_id="",
                )
                for number in new
            ],
            version=3,
        )
        yield self._pipelined(
            "InitProducerId, pipelined, idempotent",
            ApiKey.INIT_PRODUCER_ID,
            [
                frame(
                    ApiKey.INIT_PRODUCER_ID,
                    newest(ApiKey.INIT_PRODUCER_ID),
                    transactional_id=None,
                    transaction_timeout_ms=0,
                )
            ]
            * sizes.pipelined,
        )
        yield Verb("OffsetCommit, pipelined by 100 connections", self._from_many)
        yield from self._transactions()
        yield from self._large_batches()

    def _from_many(self) -> str:
        """Let many connections send at once, before any of them reads."""
        each = max(self._sizes.pipelined // 20, 1)
        clients = [Client(self._port) for _ in range(100)]
        requests = list(self._commits(0, min(each, self._sizes.groups - self._sizes.pipelined)))
        sending = [client.send(requests) for client in clients]
        answers = [client.receive(len(requests))[1] for client in clients]
        for thread in sending:
            thread.join()
        for client in clients:
            client.close()
        return outcome(ApiKey.OFFSET_COMMIT, newest(ApiKey.OFFSET_COMMIT), answers)

    def _transactions(self) -> Iterator[Verb]:
        """Yield transactional requests of many producers, and the end of all by timeout."""
        numbers = range(min(self._sizes.pipelined, self._sizes.transactional_ids))
        producers: list[tuple[int, int]] = []

        def begin() -> str:
            version = newest(ApiKey.INIT_PRODUCER_ID)
            with Client(self._port) as client:
                requests = list(self._init(0, len(numbers), TRANSACTION_TIMEOUT_MS))
                sending = client.send(requests)
                for _ in numbers:
                    answer = decoded(ApiKey.INIT_PRODUCER_ID, version, client.receive(1)[0])
                    producers.append((answer.producer_id, answer.producer_epoch))
                sending.join()
            return f"{len(producers):,} producers"

        def produce() -> str:
            requests = [
                frame(
                    ApiKey.PRODUCE,
                    newest(ApiKey.PRODUCE),
                    transactional_id=f"x{number}",
                    acks=-1,
                    timeout_ms=60_000,
                    topic_data=[
                        {
                            "name": f"s{number % self._sizes.topics}",
                            "partition_data": [
                                {
                                    "index": 0,
                                    "records": batch(
                                        b"value",
                                        timestamp_ms=_NOW_MS,
                                        producer=(*producers[number], 0),
                                        transactional=True,
                                    ),
                                }
                            ],
                        }
                    ],
                )
                for number in numbers
            ]
            return self._exchange(ApiKey.PRODUCE, newest(ApiKey.PRODUCE), requests)

        def time_out() -> str:
            time.sleep((TRANSACTION_TIMEOUT_MS + 2 * TIMED_OUT_EVERY_MS) / 1_000)
            return f"{len(numbers):,} transactions"

        yield Verb("InitProducerId, pipelined, of old ids", begin, is_needed=True)
        yield Verb("Produce, pipelined, transactional", produce)
        yield Verb("transactions that time out at once", time_out)

    def _large_batches(self) -> Iterator[Verb]:
        size = self._sizes.request_bytes
        large = batch(bytes(size), timestamp_ms=_NOW_MS)
        yield self._pipelined("Produce of one large batch", ApiKey.PRODUCE, [_produce(large)])
        value = b"value %d " * 100
        many = batch(*([value] * (size // len(value) // 4)), timestamp_ms=_NOW_MS)
        yield self._pipelined("Produce of many records", ApiKey.PRODUCE, [_produce(many)])
        packed = batch(bytes(size), timestamp_ms=_NOW_MS, compression=Compression.ZSTD)
        yield self._pipelined("Produce of a compressed batch", ApiKey.PRODUCE, [_produce(packed)])
        packed = batch(
            *([value] * (size // len(value) // 4)),
            timestamp_ms=_NOW_MS,
            compression=Compression.GZIP,
        )
        yield self._pipelined("Produce of compressed records", ApiKey.PRODUCE, [_produce(packed)])
        parts = [
            {"index": index, "records": batch(bytes(size // 50), timestamp_ms=_NOW_MS)}
            for index in range(min(50, self._sizes.wide))
        ]
        fields: dict[str, Any] = {"acks": -1, "timeout_ms": 60_000}
        fields["topic_data"] = [{"name": "w", "partition_data": parts}]
        request = frame(ApiKey.PRODUCE, newest(ApiKey.PRODUCE), **fields)
        yield self._pipelined("Produce to 50 partitions", ApiKey.PRODUCE, [request])
        asked = [
            {"partition": index, "fetch_offset": 0, "partition_max_bytes": size}
            for index in range(min(50, self._sizes.wide))
        ]
        request = frame(
            ApiKey.FETCH,
            newest(ApiKey.FETCH),
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=size,
            topics=[{"topic": "w", "partitions": asked}],
        )
        yield self._pipelined("Fetch of 50 partitions", ApiKey.FETCH, [request])

    # --- what deletes -----------------------------------------------------------------------------

    def _deleting(self) -> Iterator[Verb]:
        for api in _LAST:
            yield from self._largest(api)
        yield Verb(f"{self._sizes.connections:,} connections closed at once", self._disconnect)

    def _disconnect(self) -> str:
        self.close()
        return ""

    # --- requests ---------------------------------------------------------------------------------

    def _pipelined(self, name: str, api: ApiKey, requests: Any, version: int | None = None) -> Verb:
        return Verb(name, lambda: self._exchange(api, version or newest(api), list(requests)))

    def _exchange(self, api: ApiKey, version: int, requests: list[bytes]) -> str:
        with Client(self._port) as client:
            answers = client.exchange(requests)
        return outcome(api, version, answers)


def _produce(records: bytes) -> bytes:
    return frame(
        ApiKey.PRODUCE,
        newest(ApiKey.PRODUCE),
        acks=-1,
        timeout_ms=60_000,
        topic_data=[{"name": "w", "partition_data": [{"index": 0, "records": records}]}],
    )
