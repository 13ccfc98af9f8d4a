"""Fetches with unusual limits, epochs and isolation levels: the answers of Kafka 4.3.1.

Rules: [data-plane/first-batch], [data-plane/long-poll], [data-plane/fetch-offset],
[data-plane/current-leader-epoch].
"""

from typing import Any

import pytest

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.fetch import FetchRequest
from coterie.server.handlers.plain_fetch import READ_AT_ONCE, TOPIC_IDS_SINCE
from coterie.server.logs.fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH
from coterie.server.releases import Release
from tests.unit.server.manual import Client, make_broker, open_log
from tests.unit.server.produced import batch, fetch_request, produce

ONE = len(batch(b"v" * 100))


@pytest.fixture
def client() -> Client:
    """Partition 0 holds three batches, partition 1 none."""
    client = Client(make_broker())
    client.broker.controller.create("t", 2, {})
    for _ in range(3):
        produce(client, batch(b"v" * 100))
    return client


def sent(client: Client, request: FetchRequest, version: int = 12) -> Any:
    """Send a Fetch; return the response, None if it waits."""
    client.send(request, version)
    client.loop.turn()
    answers = client.answers()
    return answers[0][1] if answers else None


def partitions_of(answer: Any) -> list[tuple[int, int, int]]:
    """Return number, error and length of the records of each partition."""
    return [
        (each.partition_index, each.error_code, len(each.records))
        for topic in answer.responses
        for each in topic.partitions
    ]


@pytest.mark.parametrize(
    ("offset", "limits", "records"),
    [
        # min_bytes is at most max_bytes, and more than that does not fit.
        (0, {"min_bytes": 10_000, "max_bytes": 500}, 2 * ONE),
        (0, {"min_bytes": 10_000, "max_bytes": 0}, ONE),
        (0, {"min_bytes": 10_000, "partition_max_bytes": 0}, ONE),
        (0, {"min_bytes": 10_000}, None),
        (3, {"min_bytes": 10_000, "max_bytes": 500}, None),
        (2, {"min_bytes": ONE}, ONE),
        (2, {"min_bytes": ONE + 1}, None),
    ],
)
def test_fetch_that_cannot_get_more_records_does_not_wait(
    client: Client, offset: int, limits: dict[str, Any], records: int | None
) -> None:
    answer = sent(client, fetch_request((0, offset), max_wait_ms=400, **limits))
    if records is None:
        assert answer is None
    else:
        assert partitions_of(answer) == [(0, 0, records)]


def test_fetch_does_not_wait_if_the_next_records_are_in_another_segment(client: Client) -> None:
    open_log(client.broker, "t").roll()
    produce(client, batch(b"w"))
    request = fetch_request((0, 2), max_wait_ms=400, min_bytes=10_000)
    assert partitions_of(sent(client, request)) == [(0, 0, ONE)]


@pytest.mark.parametrize("isolation", [0, 1])
@pytest.mark.parametrize(
    ("asked", "limits", "answers"),
    [
        ([(0, 0)], {"max_bytes": -1}, [(0, -1, 0)]),
        ([(0, 0), (1, 0)], {"max_bytes": -1}, [(0, -1, 0), (1, 0, 0)]),
        ([(0, 3)], {"max_bytes": -1}, [(0, 0, 0)]),
        ([(0, 9)], {"max_bytes": -1}, [(0, 1, 0)]),
        ([(9, 9)], {"max_bytes": -1}, [(9, 3, 0)]),
        ([(0, 0)], {"max_bytes": -1, "current_leader_epoch": 5}, [(0, 75, 0)]),
        ([(0, 0)], {"partition_max_bytes": -1}, [(0, -1, 0)]),
        ([(0, 0), (1, 0)], {"partition_max_bytes": -1}, [(0, -1, 0), (1, 0, 0)]),
        ([(0, 0)], {"partition_max_bytes": -1, "last_fetched_epoch": 7}, [(0, 1, 0)]),
        ([(0, 3)], {"partition_max_bytes": -1}, None),
    ],
)
def test_negative_limits(
    client: Client,
    isolation: int,
    asked: list[tuple[int, int]],
    limits: dict[str, Any],
    answers: list[tuple[int, int, int]] | None,
) -> None:
    request = fetch_request(*asked, max_wait_ms=400, isolation_level=isolation, **limits)
    answer = sent(client, request)
    assert (answer and partitions_of(answer)) == answers


def test_first_batch_above_the_limit_leaves_nothing_for_others(client: Client) -> None:
    produce(client, batch(b"w"), partition=1)
    answer = sent(client, fetch_request((0, 0), (1, 0), max_bytes=1))
    assert partitions_of(answer) == [(0, 0, ONE), (1, 0, 0)]


@pytest.mark.parametrize(
    ("asked", "answered"),
    [
        ([("t", [])], []),
        ([("u", []), ("t", [0]), ("u", [])], [("t", [0])]),
        ([("t", [0]), ("t", [1])], [("t", [0, 1])]),
        ([("t", [0]), ("u", [1]), ("t", [1])], [("t", [0]), ("u", [1]), ("t", [1])]),
        ([("t", [0]), ("u", [0]), ("t", [0])], [("t", [0]), ("u", [0])]),
    ],
)
@pytest.mark.parametrize("session_epoch", [INITIAL_EPOCH, FINAL_EPOCH])
def test_neighbours_of_a_topic_are_answered_together(
    client: Client,
    asked: list[tuple[str, list[int]]],
    answered: list[tuple[str, list[int]]],
    session_epoch: int,
) -> None:
    request = fetch_request(session_epoch=session_epoch)
    request.topics = [
        topic
        for name, indexes in asked
        for topic in fetch_request(*((index, 0) for index in indexes), topic=name).topics
    ]
    answer = sent(client, request)
    assert [
        (topic.topic, [each.partition_index for each in topic.partitions])
        for topic in answer.responses
    ] == answered


def test_negative_limit_of_the_oldest_version_that_has_one() -> None:
    """As Kafka 2.8.2."""
    broker = make_broker()
    broker.pretend(Release.named("2.8"))
    broker.controller.create("t", 1, {})
    client = Client(broker)
    produce(client, batch(b"v"))
    for max_bytes, error in ((-1, ErrorCode.UNKNOWN_SERVER_ERROR), (0, ErrorCode.NONE)):
        ((_, found, _),) = partitions_of(
            sent(client, fetch_request((0, 0), max_bytes=max_bytes), 3)
        )
        assert found == error


@pytest.mark.parametrize(("epoch", "error"), [(-3, 0), (-2, 0), (-1, 0), (0, 0), (1, 75)])
def test_negative_leader_epoch_is_none(client: Client, epoch: int, error: int) -> None:
    (found,) = partitions_of(sent(client, fetch_request((0, 0), current_leader_epoch=epoch)))
    assert found[:2] == (0, error)


@pytest.mark.parametrize(("version", "has_leader"), [(13, False), (15, False), (16, True)])
def test_fenced_client_is_told_the_leader(client: Client, version: int, has_leader: bool) -> None:
    open_log(client.broker, "t").leader_epoch = 4
    topic_id = client.broker.topics.by_name["t"].topic_id
    for epoch, error in ((1, 74), (9, 75)):
        answer = sent(
            client,
            fetch_request((0, 0), (1, 0), topic_id=topic_id, current_leader_epoch=epoch),
            version,
        )
        first, second = answer.responses[0].partitions
        assert (first.error_code, second.error_code) == (error, 75)
        if has_leader and error == ErrorCode.FENCED_LEADER_EPOCH:
            leader = first.current_leader
            assert (leader.leader_id, leader.leader_epoch) == (client.broker.node_id, 4)
            (node,) = answer.node_endpoints
            assert (node.node_id, node.host, node.port, node.rack) == (
                client.broker.node_id, "127.0.0.1", 9092, None,
            )  # fmt: skip
        else:
            assert (first.current_leader, answer.node_endpoints) == (None, [])
        assert second.current_leader is None


@pytest.mark.parametrize(("version", "error"), [(6, 0), (7, -1), (12, -1)])
@pytest.mark.parametrize("isolation", [2, -1])
def test_unknown_isolation_level(client: Client, version: int, error: int, isolation: int) -> None:
    answer = sent(client, fetch_request((7, 0), (0, 0), isolation_level=isolation), version)
    assert (answer.error_code, answer.session_id) == (error, 0)
    assert partitions_of(answer) == [(7, -1, 0), (0, -1, 0)]
    assert [each.aborted_transactions for each in answer.responses[0].partitions] == [[], []]


@pytest.mark.parametrize("version", range(4, 19))
@pytest.mark.parametrize("count", [1, READ_AT_ONCE])
def test_unknown_isolation_level_counts_only_if_a_partition_is_there(
    client: Client, version: int, count: int
) -> None:
    """Also of a fetch that is handled in steps."""
    by_id = version >= TOPIC_IDS_SINCE
    topic_id = client.broker.topics.by_name["t"].topic_id
    absent = [(9 + number, 0) for number in range(count)]
    request = fetch_request(*absent, topic_id=topic_id, isolation_level=2)
    answer = sent(client, request, version)
    assert answer.error_code == 0
    assert partitions_of(answer) == [(number, 3, 0) for number, _ in absent]
    answer = sent(client, fetch_request(*absent, topic="u", isolation_level=2), version)
    unknown = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert partitions_of(answer) == [(number, unknown, 0) for number, _ in absent]
    request = fetch_request(*absent, (0, 0), topic_id=topic_id, isolation_level=2)
    refused = [] if by_id else [(number, -1, 0) for number, _ in [*absent, (0, 0)]]
    assert partitions_of(sent(client, request, version)) == refused
