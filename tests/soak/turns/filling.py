"""The verbs that bring a new server to its limits."""

import select
import socket
import time
from collections import Counter
from collections.abc import Iterator

from coterie.protocol.api_keys import ApiKey
from tests.soak.turns.answers import Answers, decoded
from tests.soak.turns.client import Client
from tests.soak.turns.requests import frame, newest
from tests.soak.turns.session import PARTITIONS_A_REQUEST, Session, Verb

# The server's backlog is 4,096.
_CONNECTIONS_AT_ONCE = 3_000
_LENGTH_BYTES = 4


def filling(session: Session) -> Iterator[Verb]:
    """Yield the verbs; the later ones of the hunt need all of them."""
    for verb in _filling(session):
        yield verb._replace(is_needed=True)


def _filling(session: Session) -> Iterator[Verb]:
    sizes = session.sizes
    yield Verb("FindCoordinator and InitProducerId, the first", lambda: _first_id(session))
    yield _created(session, "CreateTopics, many partitions", {"w": sizes.wide})
    for first in range(0, sizes.topics, PARTITIONS_A_REQUEST):
        count = min(PARTITIONS_A_REQUEST, sizes.topics - first)
        topics = {f"s{number}": 1 for number in range(first, first + count)}
        yield _created(session, f"CreateTopics of {count:,}", topics)
    api = ApiKey.OFFSET_COMMIT
    yield session.verb("OffsetCommit, the first", api, lambda: session.commits(0, 1))
    yield session.verb(
        "OffsetCommit, pipelined, of new groups",
        api,
        lambda: session.commits(1, sizes.groups - sizes.pipelined),
    )
    yield Verb(
        "InitProducerId, pipelined, of new ids",
        lambda: session.ids(range(1, sizes.transactional_ids)),
    )
    yield Verb(f"{sizes.connections:,} connections", lambda: _connect(session))


def _created(session: Session, name: str, partitions: dict[str, int]) -> Verb:
    topics = [
        {"name": topic, "num_partitions": count, "replication_factor": 1}
        for topic, count in partitions.items()
    ]
    api = ApiKey.CREATE_TOPICS
    request = frame(api, newest(api), topics=topics, timeout_ms=300_000)
    return session.verb(name, api, lambda: [request])


def _first_id(session: Session) -> Answers:
    """Let `__transaction_state` be created, and ask until its partition is loaded."""
    finding = newest(ApiKey.FIND_COORDINATOR)
    with Client(session.port) as client:
        client.call(ApiKey.FIND_COORDINATOR, finding, key_type=1, coordinator_keys=["x0"])
    while True:
        answers = session.ids([0])
        if 0 in session.producers:
            return answers
        time.sleep(0.01)


def _connect(session: Session) -> Answers:
    """Open connections that stay idle, as many at once as the system keeps for the server."""
    answers = Answers(ApiKey.API_VERSIONS, 0, Counter())
    while left := session.sizes.connections - len(session.idle):
        answers.frames[_connect_some(session, min(left, _CONNECTIONS_AT_ONCE))] += 1
    return answers


def _connect_some(session: Session, count: int) -> bytes:
    """Open connections, and return the answer to a request of the last one."""
    connecting = select.poll()
    for _ in range(count):
        opened = socket.socket()
        opened.setblocking(False)
        opened.connect_ex(("127.0.0.1", session.port))
        session.idle.append(opened)
        connecting.register(opened, select.POLLOUT)
    left = {opened.fileno() for opened in session.idle[-count:]}
    while left:
        for number, _ in connecting.poll():
            connecting.unregister(number)
            left.discard(number)
    # They are accepted in their order, so all are when the last one has an answer.
    last = session.idle[-1]
    last.setblocking(True)
    last.sendall(frame(ApiKey.API_VERSIONS, 0))
    answer = last.recv(1 << 16)[_LENGTH_BYTES:]
    if not answer or decoded(ApiKey.API_VERSIONS, 0, answer).error_code:
        raise ConnectionError("the last of many connections was not served")
    return answer
