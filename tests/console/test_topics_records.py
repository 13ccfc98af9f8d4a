"""Topics, records, the search and transactions of a console over a broker with a real client."""

import json
import os
import time
from collections.abc import Generator, Iterator, Sequence
from typing import Any
from urllib.parse import quote

import confluent_kafka
import pytest

from coterie.client.cluster import Cluster
from coterie.client.offsets import commit_offsets
from coterie.client.topics import create_topic
from coterie.console.places import Place
from coterie.console.records.matching import PARTS, Matcher, Query
from coterie.console.records.tail import MOST_ROWS, MOST_TAILS, Tail
from coterie.console.serving import ConsoleServer
from coterie.testing import Broker
from demo.producer import QUIET_LOG_LEVEL
from tests.console.raw_requests import LIMIT_S, ask
from tests.live.deadlines import eventually
from tests.live.records import produce, read_partition

HOSTILE = "<img src=x onerror=alert(1)>"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
# Records of "mixed", which has three partitions.
MIXED = 300
LARGE = 1024 * 1024
# Of the first record: recent, since retention removes what is old.
BEGIN_MS = time.time_ns() // 1_000_000 - 3_600_000

# One broker, and not one a worker.
pytestmark = pytest.mark.xdist_group("console-topics")


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    """A broker of ours, or the fresh one at COTERIE_TEST_BOOTSTRAP, with topics and records."""
    running = os.environ.get("COTERIE_TEST_BOOTSTRAP")
    if running:
        _fill(running)
        yield running
        return
    with Broker() as kafka:
        _fill(kafka.bootstrap_servers)
        yield kafka.bootstrap_servers


def _fill(servers: str) -> None:
    topics = {"mixed": 3, "odd": 1, "transactional": 1, "empty": 2, "codecs": 1}
    with Cluster(servers, LIMIT_S) as cluster:
        for name, partitions in topics.items():
            change = create_topic(
                cluster, name, partitions, 1, {"max.message.bytes": str(2 * LARGE)}
            )
            assert change.error == 0, change
    for codec in CODECS:
        _produce(servers, "codecs", [(codec.encode(), b"packed " * 50)], codec)
    for number in range(3):
        rows = [(b"%d" % n, b'{"n": %d}' % n) for n in range(number, MIXED, 3)]
        _produce(servers, "mixed", rows, partition=number, begin_ms=number)
    big = (b"big", "ä".encode() * (LARGE // 2))
    _produce(servers, "odd", [(b"\xff\x00", b"\x80"), (None, None), (b"", b""), big])
    _produce(servers, "odd", [(HOSTILE.encode(), HOSTILE.encode())], header=HOSTILE)


@pytest.fixture(scope="module")
def console(servers: str) -> Iterator[ConsoleServer]:
    with ConsoleServer(Place(lambda: Cluster(servers, LIMIT_S), servers)) as running:
        yield running


def _produce(
    servers: str,
    topic: str,
    rows: Sequence[tuple[bytes | None, bytes | None]],
    codec: str = "none",
    partition: int = 0,
    begin_ms: int = 0,
    header: str = "",
) -> None:
    """Produce records, three milliseconds apart from a time on, each with a header of bytes."""
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": servers,
            "compression.type": codec,
            "message.max.bytes": 2 * LARGE,
            "log_level": QUIET_LOG_LEVEL,
        }
    )
    for number, (key, value) in enumerate(rows):
        producer.produce(
            topic,
            key=key,
            value=value,
            partition=partition,
            timestamp=BEGIN_MS + begin_ms + 3 * number,
            headers=[(header or "trace", b"\xfe\x01"), ("none", None)],
        )
    assert producer.flush(LIMIT_S) == 0


def got(console: ConsoleServer, path: str) -> Any:
    answered = ask(console, "GET", path)
    assert answered.status == 200, answered.body
    return answered.json


def refused(console: ConsoleServer, path: str, status: int, about: str) -> None:
    answered = ask(console, "GET", path)
    assert answered.status == status, answered.body
    assert about in answered.json["error"]


def streamed(console: ConsoleServer, path: str) -> list[tuple[str, Any]]:
    """Return the events of a stream that ends."""
    answered = ask(console, "GET", path, headers={"Connection": "close"})
    assert answered.status == 200, answered.body
    text = answered.body.decode()
    if answered.headers.get("transfer-encoding") == "chunked":
        text = "".join(text.split("\r\n")[1::2])
    lines = [each.split("\n") for each in text.split("\n\n") if each]
    return [(name[len("event: ") :], json.loads(data[len("data: ") :])) for name, data in lines]


def walked(console: ConsoleServer, path: str) -> list[dict[str, Any]]:
    """Return the records of all pages."""
    rows: list[dict[str, Any]] = []
    cursor = ""
    while True:
        page = got(console, path + cursor)
        rows += page["records"]
        if page["cursor"] is None:
            return rows
        assert page["records"], "a page that could not go on"
        cursor = f"&cursor={page['cursor']}"


@pytest.mark.parametrize(("order", "limit"), [("newest", 70), ("oldest", 70), ("newest", 500)])
def test_pages_have_each_record_once_in_the_order_of_time(
    console: ConsoleServer, order: str, limit: int
) -> None:
    rows = walked(console, f"/api/topics/mixed/records?order={order}&limit={limit}")
    numbers = [json.loads(row["value"])["n"] for row in rows]
    wanted = list(range(MIXED))
    assert numbers == (wanted if order == "oldest" else wanted[::-1])
    assert {row["value_format"] for row in rows} == {"json"}


def test_records_from_an_offset_and_from_a_time(console: ConsoleServer) -> None:
    page = got(console, "/api/topics/mixed/records?partition=1&offset=95&limit=10")
    assert [row["offset"] for row in page["records"]] == [95, 96, 97, 98, 99]
    assert (page["order"], page["cursor"], page["newer"]) == ("oldest", None, "1-100")
    at_ms = BEGIN_MS + 250
    page = got(console, f"/api/topics/mixed/records?at_ms={at_ms}&limit=3")
    assert [row["timestamp_ms"] - at_ms for row in page["records"]] == [-1, -2, -3]
    page = got(console, f"/api/topics/mixed/records?at_ms={at_ms}&limit=3&order=oldest")
    assert [row["timestamp_ms"] - at_ms for row in page["records"]] == [0, 1, 2]
    page = got(console, f"/api/topics/mixed/records?at_ms={BEGIN_MS + 9_000}&order=oldest")
    assert (page["records"], page["cursor"]) == ([], None)


def test_bytes_nulls_headers_and_markup_are_shown_as_they_are(console: ConsoleServer) -> None:
    rows = got(console, "/api/topics/odd/records?order=oldest")["records"]
    binary, null, empty, big, hostile = rows
    assert (binary["key"], binary["key_format"], binary["value"]) == ("ff00", "hex", "80")
    assert (null["key"], null["value"], null["value_format"]) == (None, None, None)
    assert (empty["key"], empty["value"], empty["value_format"]) == ("", "", "text")
    trace, none = binary["headers"]
    assert (trace["name"], trace["value"], trace["value_format"]) == ("trace", "fe01", "hex")
    assert (none["name"], none["value"]) == ("none", None)
    assert hostile["key"] == hostile["value"] == hostile["headers"][0]["name"] == HOSTILE
    assert (big["value_size"], big["value_cut"]) == (LARGE, True)
    assert len(big["value"]) < 10_000
    whole = got(console, f"/api/topics/odd/records/0/{big['offset']}")
    assert whole["value"] == "ä" * (LARGE // 2)
    assert not whole["value_cut"]
    refused(console, "/api/topics/odd/records/0/5", 404, "offset 5")


def test_each_codec_is_read(console: ConsoleServer) -> None:
    rows = got(console, "/api/topics/codecs/records?order=oldest")["records"]
    assert [row["key"] for row in rows] == list(CODECS)
    assert [row["compression"] for row in rows] == list(CODECS)
    found = streamed(console, "/api/topics/codecs/search?text=packed&in=value")
    keys = [row["key"] for name, data in found if name == "records" for row in data["records"]]
    assert keys == list(CODECS)


def test_transactions_and_what_they_hold_up(servers: str, console: ConsoleServer) -> None:
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": servers,
            "transactional.id": HOSTILE,
            "log_level": QUIET_LOG_LEVEL,
        }
    )
    producer.init_transactions(LIMIT_S)
    for word in ("committed", "aborted", "undecided"):
        producer.begin_transaction()
        producer.produce("transactional", word.encode(), partition=0)
        assert producer.flush(LIMIT_S) == 0
        if word == "committed":
            producer.commit_transaction(LIMIT_S)
        elif word == "aborted":
            producer.abort_transaction(LIMIT_S)
    path = "/api/topics/transactional/records"
    rows = got(console, path)["records"]
    assert [(row["value"], row["transaction"]) for row in rows if not row["control"]] == [
        (word, word) for word in ("undecided", "aborted", "committed")
    ]
    assert [row["record_name"] for row in rows if row["control"]] == ["AbortMarker", "CommitMarker"]
    rows = got(console, f"{path}?isolation=read_committed")["records"]
    assert [row["value"] for row in rows] == ["committed"]
    (row,) = got(console, "/api/transactions")["transactions"]
    assert (row["transactional_id"], row["state"]) == (HOSTILE, "Ongoing")
    (held,) = row["holds_up"]
    assert (held["topic"], held["last_stable_offset"], held["records"]) == ("transactional", 4, 1)
    (found,) = got(console, "/api/topics/transactional/producers?partition=0")["producers"]
    assert (found["transactional_id"], found["start_offset"]) == (HOSTILE, 4)
    events = streamed(console, "/api/topics/transactional/search?text=ted&isolation=read_committed")
    texts = [row["value"] for name, data in events if name == "records" for row in data["records"]]
    assert texts == ["committed"]
    states = got(console, "/api/topics/__transaction_state/records?limit=1")["records"]
    assert states[0]["key"] == {"transactional_id": HOSTILE}
    assert states[0]["value"]["transaction_status"] == "Ongoing"
    producer.abort_transaction(LIMIT_S)

    def holds_nothing_up() -> bool:
        (row,) = got(console, "/api/transactions")["transactions"]
        return not row["holds_up"]

    # Kafka answers before it has written that all markers are there.
    eventually(holds_nothing_up, "the transaction has ended")


def test_topics_with_sizes_settings_and_readers(servers: str, console: ConsoleServer) -> None:
    (mixed,) = [each for each in got(console, "/api/topics")["topics"] if each["topic"] == "mixed"]
    assert (mixed["partition_count"], mixed["offsets"]) == (3, MIXED)
    topic = got(console, "/api/topics/mixed")
    assert [each["end_offset"] for each in topic["partitions"]] == [100, 100, 100]
    assert sum(each["size_bytes"] for each in topic["partitions"]) == mixed["size_bytes"] > 0
    settings = {each["key"]: each for each in topic["settings"]}
    assert settings["retention.ms"]["source"] == "default"
    assert settings["max.message.bytes"]["value"] == str(2 * LARGE)
    with Cluster(servers, LIMIT_S) as cluster:
        assert commit_offsets(cluster, HOSTILE, {("mixed", 2): 40}) == {("mixed", 2): 0}
    (group,) = got(console, "/api/topics/mixed/groups")["groups"]
    assert (group["group"], group["state"], group["lag"]) == (HOSTILE, "Empty", 60)
    assert group["partitions"][0]["current_offset"] == 40
    assert got(console, "/api/topics/empty/groups")["groups"] == []
    commits = got(console, "/api/topics/__consumer_offsets/records?limit=500")["records"]
    (commit,) = [row for row in commits if row["record_name"] == "OffsetCommit"]
    assert (commit["group"], commit["value"]["offset"]) == (HOSTILE, 40)


def test_a_search_says_how_far_it_is_and_where_it_found(console: ConsoleServer) -> None:
    events = streamed(console, "/api/topics/mixed/search?text=" + quote('"n": 27'))
    names = [name for name, _ in events]
    assert (names[0], names[-1]) == ("progress", "end")
    first, last = events[0][1], events[-1][1]
    assert (first["scanned"], first["total"], last["scanned"]) == (0, MIXED, MIXED)
    assert last["offsets"] == {"0": 100, "1": 100, "2": 100}
    found = [row for name, data in events if name == "records" for row in data["records"]]
    numbers = sorted(json.loads(row["value"])["n"] for row in found)
    assert numbers == [27, *range(270, 280)]
    assert not last["limited"]


@pytest.mark.parametrize(
    ("query", "offsets"),
    [
        (f"text={quote(HOSTILE)}", [4]),
        (f"text={quote(HOSTILE.upper())}&ignore_case=true&in=headers", [4]),
        (f"text={quote(HOSTILE.upper())}", []),
        ("text=^big$&pattern=true", [3]),
        ("text=^big$", []),
        (r"text=\bbig\b&pattern=true", [3]),
        ("text=b.g&pattern=true&ignore_case=true", [3]),
        ("text=big&in=value,headers", []),
        ("text=trace&in=headers", [0, 1, 2, 3]),
        ("text=tr.ce&in=headers&pattern=true&limit=2", [0, 1]),
    ],
)
def test_what_a_search_finds(console: ConsoleServer, query: str, offsets: list[int]) -> None:
    events = streamed(console, f"/api/topics/odd/search?{query}")
    found = [row for name, data in events if name == "records" for row in data["records"]]
    assert [row["offset"] for row in found] == offsets


@pytest.mark.parametrize(
    ("path", "status", "about"),
    [
        ("/api/topics/absent", 404, "absent"),
        ("/api/topics/absent/records", 404, "absent"),
        ("/api/topics/mixed/records?partition=3", 404, "partition 3"),
        ("/api/topics/mixed/records?partition=-1", 400, "partition"),
        ("/api/topics/mixed/records?limit=501", 400, "limit"),
        ("/api/topics/mixed/records?offset=1", 400, "partition"),
        ("/api/topics/mixed/records?cursor=x", 400, "cursor"),
        ("/api/topics/mixed/records?order=random", 400, "order"),
        ("/api/topics/mixed/search", 400, "text"),
        ("/api/topics/mixed/search?text=", 400, "empty"),
        ("/api/topics/mixed/search?text=(&pattern=true", 400, "pattern"),
        ("/api/topics/mixed/search?text=a&in=values", 400, "key, value, headers"),
        ("/api/topics/mixed/search?text=a&pattern=yes", 400, "pattern"),
        ("/api/topics/mixed/search?path=a[", 400, "no path"),
        ("/api/topics/mixed/search?text=a&equals=1", 400, "path"),
        ("/api/topics/mixed/tail?path=", 400, "empty"),
    ],
)
def test_what_is_wrong_is_said(console: ConsoleServer, path: str, status: int, about: str) -> None:
    refused(console, path, status, about)


def findings(console: ConsoleServer, query: str) -> tuple[list[int], dict[str, Any]]:
    """Return the numbers in the values that a search of "mixed" finds, and its last event."""
    events = streamed(console, f"/api/topics/mixed/search?{query}")
    rows = [row for name, data in events if name == "records" for row in data["records"]]
    assert events[-1][0] == "end"
    assert events[-1][1]["found"] == len(rows)
    return [json.loads(row["value"])["n"] for row in rows], events[-1][1]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("path=n&equals=27", [27]),
        ("path=$.n&equals=27.0", [27]),
        ("path=n&equals=270000", []),
        ("path=m", []),
        ("path=n&equals=27&in=key", []),
        ("path=n&equals=27&text=28", []),
        ("path=n&partition=1&limit=2", [1, 4]),
    ],
)
def test_a_search_by_a_field(console: ConsoleServer, query: str, found: list[int]) -> None:
    assert findings(console, query)[0] == found


def test_a_search_finds_the_newest_first(console: ConsoleServer) -> None:
    numbers, end = findings(console, "path=n&order=newest&partition=2&limit=3")
    assert (numbers, end["limited"]) == ([299, 296, 293], True)
    numbers, end = findings(console, "path=n&order=newest&limit=1000")
    assert sorted(numbers) == list(range(MIXED))
    for partition in range(3):
        mine = [each for each in numbers if each % 3 == partition]
        assert mine == sorted(mine, reverse=True)
    assert (end["scanned"], end["total"], end["limited"]) == (MIXED, MIXED, False)
    assert set(end["offsets"].values()) == {0}


def tailed(servers: str, seconds: float, **more: Any) -> Generator[tuple[str, Any], None, None]:
    """Follow the topic "followed" with a tail that ends after some seconds."""
    query = Query("", is_pattern=False, ignores_case=False, parts=PARTS, path="", equals=None,
                  only_committed=False)  # fmt: skip
    tail = Tail("followed", None, Matcher(query._replace(**more), None), seconds)
    with Cluster(servers, LIMIT_S) as cluster:
        yield from tail.events(cluster)


def test_records_are_followed_as_they_are_written(servers: str) -> None:
    with Cluster(servers, LIMIT_S) as cluster:
        create_topic(cluster, "followed", 2, 1, {})
    produce(servers, "followed", [(b"before", b"{}")])
    events = tailed(servers, LIMIT_S, path="n", equals="1")
    assert next(events) == ("progress", {"read": 0, "offsets": {"0": 1, "1": 0}})
    produce(servers, "followed", [(b"k", b'{"n": %d}' % (n % 2)) for n in range(2 * MOST_ROWS + 4)])
    keys, skipped, read = 0, 0, 0
    for name, data in events:
        if name == "records":
            assert {json.loads(row["value"])["n"] for row in data["records"]} == {1}
            keys, skipped = keys + len(data["records"]), skipped + data["skipped"]
        else:
            read = data["read"]
        if read == 2 * MOST_ROWS + 4:
            break
    assert keys + skipped == MOST_ROWS + 2
    events.close()
    assert [name for name, _ in tailed(servers, 0.0)] == ["progress", "end"]


def test_readers_who_watch_are_few(console: ConsoleServer) -> None:
    place = console._place
    for _ in range(MOST_TAILS):
        assert place.tails.acquire(blocking=False)
    try:
        ((name, data),) = streamed(console, "/api/topics/mixed/tail")
        assert (name, data["kind"]) == ("error", "TooMany")
    finally:
        for _ in range(MOST_TAILS):
            place.tails.release()


def test_a_search_of_a_topic_that_is_not_there_ends_with_an_error(console: ConsoleServer) -> None:
    ((name, data),) = streamed(console, "/api/topics/absent/search?text=a")
    assert (name, data["kind"]) == ("error", "NotFound")


def test_a_cursor_goes_on_with_what_is_written_later(servers: str, console: ConsoleServer) -> None:
    newer = got(console, "/api/topics/empty/records")["newer"]
    produce(servers, "empty", [(b"later", b"v")])
    page = got(console, f"/api/topics/empty/records?order=oldest&cursor={newer}")
    assert [row["key"] for row in page["records"]] == ["later"]
    assert len(read_partition(servers, "empty")) == 1
