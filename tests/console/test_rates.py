"""What is written to topics and requested of brokers in a second, from looks [console/rates]."""

from typing import Any

from coterie.console.model.rates import TopicRates, Written, requests_between

NOTHING = Written(None, None)


def rows(*partitions: tuple[int, int | None, int]) -> list[dict[str, Any]]:
    """Partitions with start, end and size."""
    keys = "start_offset", "end_offset", "size_bytes"
    return [dict(zip(keys, each, strict=True)) for each in partitions]


def test_rates_are_those_of_ten_seconds() -> None:
    rates = TopicRates()
    assert rates.add(0, {"t": rows((0, 10, 1000), (0, 0, 0))})["t"] == NOTHING
    # Too soon to say anything, and no look to compare with.
    assert rates.add(1, {"t": rows((0, 90, 9000), (0, 0, 0))})["t"] == NOTHING
    assert rates.add(5, {"t": rows((0, 20, 1500), (0, 10, 500))})["t"] == Written(4, 200)
    assert rates.add(10, {"t": rows((0, 20, 1500), (0, 10, 500))})["t"] == Written(2, 100)
    # Nothing was written since the look ten seconds before.
    assert rates.add(15, {"t": rows((0, 20, 1500), (0, 10, 500))})["t"] == Written(0, 0)


def test_bytes_that_were_deleted_are_not_counted() -> None:
    rates = TopicRates()
    rates.add(0, {"t": rows((0, 10, 1000))})
    assert rates.add(5, {"t": rows((5, 20, 1500))})["t"] == Written(2, None)
    rates.add(0, {"compacted": rows((0, 10, 1000))})
    assert rates.add(5, {"compacted": rows((0, 20, 900))})["compacted"] == Written(2, None)
    rates.add(0, {"refused": rows((0, None, 0))})
    assert rates.add(5, {"refused": rows((0, None, 0))})["refused"] == Written(None, 0)


def test_a_topic_that_was_made_anew_is_another_one() -> None:
    rates = TopicRates()
    rates.add(0, {"t": rows((0, 100, 1000))})
    assert rates.add(5, {"t": rows((0, 3, 30))})["t"] == NOTHING
    assert rates.add(10, {"t": rows((0, 13, 130))})["t"] == Written(2, 20)
    assert rates.add(15, {"t": rows((0, 13, 130), (0, 0, 0))})["t"] == NOTHING
    # Nobody has looked at it for long.
    assert rates.add(100, {"t": rows((0, 13, 130), (0, 500, 0))})["t"] == NOTHING


def test_requests_are_those_of_connections_that_stayed() -> None:
    before = {"stayed": 10, "closed": 5, "wrapped": 2**31 - 1, "random": 7, "idle": 3}
    now = {"stayed": 25, "opened": 400, "wrapped": 0, "random": 2**30, "idle": 3}
    assert requests_between(before, now) == 15
