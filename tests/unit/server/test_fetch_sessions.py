"""Fetch sessions [data-plane/fetch-sessions]: conversations, and the limits of their number."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.fetch import (
    FetchRequest,
    FetchRequestForgottenTopic,
    FetchRequestPartition,
    FetchRequestTopic,
    FetchResponse,
)
from coterie.server.logs import fetch_sessions
from coterie.server.logs.fetch_sessions import (
    EVICTION_MS,
    NO_SESSION,
    FetchSession,
    FetchSessionCache,
    SessionPartition,
    next_epoch,
)
from coterie.server.logs.fetching import FetchPartition
from tests.unit.server.manual import Client, make_broker
from tests.unit.server.produced import batch, fetch_request, produce, values_of

TEXT = Path(__file__).with_name("fetch_sessions.txt").read_text(encoding="utf-8")
CONVERSATIONS = {
    name: lines.splitlines()
    for name, _, lines in (part.partition("\n") for part in TEXT.split("\n## ")[1:])
}
WAIT_MS = 600
TOPIC_IDS_SINCE = 13


class Conversation:
    """A broker and two connections that fetch, in one version."""

    def __init__(self, version: int) -> None:
        self.version = version
        broker = make_broker()
        self.clients = {"": Client(broker), "other-connection": Client(broker)}
        self.client = self.clients[""]
        # The real ids, by the names that the conversation uses.
        self.sessions: dict[str, int] = {}
        self.ids: dict[str, bytes] = {"u": b"\5" * 16}
        for topic in ("t", "k"):
            self.do("create", [topic])
        self.do("produce", ["t-0", "t-1", "t-2"])

    def do(self, command: str, words: list[str]) -> None:
        """Change a topic."""
        topics = self.client.broker.topics
        for word in words:
            topic, index, offset = parsed(word)
            if command == "create":
                made = self.client.broker.controller.create(topic, 4, {})
                # A session with an unknown id sees the topic appear.
                if topic == "u":
                    del topics.by_id[made.topic_id]
                    made.topic_id = self.ids[topic]
                    topics.by_id[made.topic_id] = made
                self.ids.setdefault(topic, made.topic_id)
            elif command == "produce":
                produce(
                    self.client,
                    batch(b"a value of forty bytes, give or take a few"),
                    topic=topic,
                    partition=index,
                )
            elif command == "delete-records":
                partition = topics.by_name[topic].partitions[index]
                self.client.broker.logs.delete_records(partition, offset)
            else:
                assert command == "delete", command
                self.client.broker.delete_topic(topics.by_name[topic])

    def request(self, words: list[str], version: int) -> FetchRequest:
        """Make the request of a line."""
        fields = dict(word.split("=") for word in words if "=" in word)
        read = [word for word in words if "@" in word]
        forgotten = fields["forget"].split(",") if "forget" in fields else []
        session = words[0] if words and words[0].startswith("s") else "0"
        return FetchRequest(
            max_wait_ms=WAIT_MS if "wait" in words else 0,
            min_bytes=1,
            max_bytes=int(fields.get("max", 1 << 20)),
            isolation_level=int(fields.get("isolation", 0)),
            session_id=self.sessions.get(session, 12345 if session != "0" else NO_SESSION),
            session_epoch=int(fields.get("epoch", -1)),
            topics=[
                FetchRequestTopic(
                    **self.named(word, version),
                    partitions=[
                        FetchRequestPartition(
                            partition=parsed(word)[1],
                            fetch_offset=parsed(word)[2],
                            partition_max_bytes=1 << 20,
                        )
                    ],
                )
                for word in read
            ],
            forgotten_topics_data=[
                FetchRequestForgottenTopic(
                    **self.named(word, version), partitions=[parsed(word)[1]]
                )
                for word in forgotten
            ],
        )

    def named(self, word: str, version: int) -> dict[str, Any]:
        """Return how a request of this version names the topic of a partition."""
        topic = parsed(word)[0]
        return {"topic_id": self.ids[topic]} if version >= TOPIC_IDS_SINCE else {"topic": topic}

    def answer(self, client: Client) -> str:
        """Return the answer that the client gets now, or after the wait, as a line."""
        client.loop.turn()
        answers = client.answers()
        slow = [] if answers else ["slow"]
        if not answers:
            client.loop.advance(WAIT_MS)
            answers = client.answers()
        ((_, found),) = answers
        return " ".join([self.session_name(found.session_id), *slow, *self.parts(found)])

    def session_name(self, session_id: int) -> str:
        if session_id == NO_SESSION:
            return "0"
        names = {known: name for name, known in self.sessions.items()}
        name = names.get(session_id, f"s{len(names) + 1}")
        self.sessions[name] = session_id
        return name

    def parts(self, found: FetchResponse) -> Iterator[str]:
        if found.error_code:
            yield ErrorCode(found.error_code).name
            return
        names = {topic_id: name for name, topic_id in self.ids.items()}
        parts = []
        for topic in found.responses:
            for each in topic.partitions:
                part = f"{topic.topic or names[topic.topic_id]}-{each.partition_index}"
                if each.error_code:
                    part += f" {ErrorCode(each.error_code).name}"
                else:
                    part += f" end={each.high_watermark} start={each.log_start_offset}"
                    if each.records:
                        part += f" records={len(values_of(each.records))}"
                parts.append(part)
        if parts:
            yield ", ".join(parts)


def parsed(word: str) -> tuple[str, int, int]:
    """Return the topic, number and offset of `t-0@5`."""
    name, _, offset = word.partition("@")
    topic, _, index = name.partition("-")
    return topic, int(index or 0), int(offset or 0)


@pytest.mark.parametrize("version", [7, 12, 16])
@pytest.mark.parametrize("name", CONVERSATIONS)
def test_conversation(name: str, version: int) -> None:
    talk = Conversation(version)
    lines = [line for line in CONVERSATIONS[name] if line and not line.startswith("#")]
    for number, line in enumerate(lines):
        who, sign, rest = line.partition(">")
        if sign:
            used = version if who.strip() != "other-naming" else 12 if version > 12 else 16
            client = talk.clients.get(who.strip(), talk.client)
            client.send(talk.request(rest.split(), used), used)
            continue
        who, sign, rest = line.partition("<")
        if not sign:
            talk.do(line.split()[0], line.split()[1:])
            continue
        if who.startswith("v"):
            continue
        following = lines[number + 1] if number + 1 < len(lines) else ""
        if version >= TOPIC_IDS_SINCE and following.startswith("v16<"):
            rest = following.partition("<")[2]
        client = talk.clients.get(who.strip(), talk.client)
        assert talk.answer(client) == rest.strip(), f"{name}: {lines[number - 1]}"


@pytest.mark.parametrize("count", [200, 1000])
def test_large_session(count: int) -> None:
    client = Client(make_broker())
    client.broker.controller.create("t", count, {})
    client.send(fetch_request(*((index, 0) for index in range(count)), session_epoch=0), 12)
    ((_, opened),) = settled(client)
    assert sum(len(topic.partitions) for topic in opened.responses) == count
    produce(client, batch(b"v"), partition=count - 1)
    client.send(fetch_request(session_id=opened.session_id, session_epoch=1, max_wait_ms=9), 12)
    ((_, answer),) = settled(client)
    ((found,),) = (topic.partitions for topic in answer.responses)
    assert found.partition_index == count - 1
    # The epoch that is taken at once cannot be used while the first request waits.
    client.send(fetch_request(session_id=opened.session_id, session_epoch=2, max_wait_ms=9), 12)
    other = Client(client.broker)
    other.send(fetch_request(session_id=opened.session_id, session_epoch=2), 12)
    ((_, refused),) = settled(other)
    assert refused.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH


@pytest.mark.usefixtures("tiny_slices")
@pytest.mark.parametrize("turns", range(0, 24, 2))
def test_session_that_is_closed_while_a_large_request_changes_it(turns: int) -> None:
    """By its own client on another connection, or because a new session takes its place."""
    count = 300
    client = Client(make_broker())
    client.broker.controller.create("t", count, {})
    everything = [(index, 0) for index in range(count)]
    client.send(fetch_request(*everything, session_epoch=0), 12)
    ((_, opened),) = settled(client)
    session_id = opened.session_id
    client.send(fetch_request(*everything, session_id=session_id, session_epoch=1), 12)
    for _ in range(turns):
        client.loop.turn_once()
    client.broker.fetch_sessions.close(session_id)
    ((_, answer),) = settled(client)
    assert answer.error_code in (ErrorCode.NONE, ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    assert client.broker.fetch_sessions.partition_count == 0
    client.send(fetch_request(*everything, session_epoch=0), 12)
    ((_, again),) = settled(client)
    assert again.session_id != session_id


def settled(client: Client) -> list[tuple[int, Any]]:
    """Return the answers after all slices of the loop and the wait."""
    for _ in range(1000):
        client.loop.turn()
        if client.transport.written:
            return client.answers()
    raise AssertionError("no answer")


def test_partitions_that_are_not_open_are_opened() -> None:
    talk = Conversation(12)
    talk.client.send(talk.request(["epoch=0", "k-0@0"], 12), 12)
    assert talk.answer(talk.client) == "s1 k-0 end=0 start=0"
    partition = talk.client.broker.topics.by_name["k"].partitions[3]
    assert partition.opened_log is None
    talk.client.send(talk.request(["s1", "epoch=1", "k-3@0"], 12), 12)
    assert talk.answer(talk.client) == "s1 k-3 end=0 start=0"


def test_name_that_is_too_long_is_not_remembered() -> None:
    client = Client(make_broker())
    client.broker.controller.create("t", 1, {})
    opened = client.call(fetch_request((0, 0), topic="x" * 250, session_epoch=0), 12)
    added = fetch_request((0, 0), topic="y" * 250, session_id=opened.session_id, session_epoch=1)
    added.topics += fetch_request((0, 0)).topics
    client.call(added, 12)
    assert client.broker.fetch_sessions.partition_count == 1


class Sessions:
    """A cache whose ids count up."""

    def __init__(self, slots: int) -> None:
        numbers = iter(range(1, 1_000_000))
        self.cache = FetchSessionCache(slots, lambda: next(numbers))

    def open(self, size: int, now_ms: int) -> int:
        session = FetchSession(now_ms, uses_topic_ids=False)
        add_partitions(session, size)
        return self.cache.open(session, now_ms)

    def use(self, session_id: int, now_ms: int) -> None:
        session = self.cache._sessions[session_id]
        session.epoch = next_epoch(session.epoch)
        assert self.cache.continued(session, now_ms)


def add_partitions(session: FetchSession, size: int) -> None:
    for index in range(len(session.partitions), size):
        wanted = FetchPartition("t", index, None, ErrorCode.NONE, 0, 0, -1, -1)
        session.add(SessionPartition(session, wanted))


class TestEviction:
    """The rule [data-plane/session-eviction]."""

    def test_full_cache_opens_no_session(self) -> None:
        sessions = Sessions(2)
        assert [sessions.open(5, 0) for _ in range(3)] == [1, 2, NO_SESSION]
        assert sessions.cache.session_count == 2

    def test_no_session_has_an_id_that_is_refused(self) -> None:
        drawn = [2**31 - 1, 2_147_483_640, 2_147_483_639]
        cache = FetchSessionCache(1, lambda: drawn.pop(0))
        assert cache.open(FetchSession(0, uses_topic_ids=False), 0) == 2_147_483_639

    def test_no_slots_no_sessions(self) -> None:
        assert Sessions(0).open(1, 0) == NO_SESSION

    def test_idle_session_yields(self) -> None:
        sessions = Sessions(2)
        sessions.open(5, 0)
        sessions.open(5, 0)
        sessions.use(1, 10)
        assert sessions.open(1, EVICTION_MS) == NO_SESSION
        assert sessions.open(1, EVICTION_MS + 1) == 3
        assert sorted(sessions.cache._sessions) == [1, 3]
        assert sessions.cache.evictions == 1
        assert sessions.cache.partition_count == 6

    def test_smaller_old_session_yields(self) -> None:
        sessions = Sessions(2)
        sessions.open(5, 0)
        sessions.open(3, 0)
        now_ms = EVICTION_MS + 1
        sessions.use(1, now_ms - 10)
        sessions.use(2, now_ms - 10)
        assert sessions.open(9, now_ms - 10) == NO_SESSION
        sessions.use(1, now_ms)
        sessions.use(2, now_ms)
        assert sessions.open(3, now_ms) == NO_SESSION
        assert sessions.open(4, now_ms) == 3
        assert sorted(sessions.cache._sessions) == [1, 3]
        # The new one is too young to yield, and the old one is larger.
        assert sessions.open(5, now_ms) == NO_SESSION

    def test_size_of_an_old_session_follows_its_partitions(self) -> None:
        sessions = Sessions(1)
        sessions.open(2, 0)
        sessions.use(1, EVICTION_MS + 1)
        add_partitions(sessions.cache._sessions[1], 7)
        sessions.use(1, EVICTION_MS + 2)
        assert sessions.open(7, EVICTION_MS + 3) == NO_SESSION
        assert sessions.open(8, EVICTION_MS + 3) == 2
        assert sessions.cache.partition_count == 8
        assert sessions.cache._replaceable == []

    def test_epoch_begins_anew_after_the_greatest(self) -> None:
        assert [next_epoch(each) for each in (0, 1, 2**31 - 2, 2**31 - 1)] == [1, 2, 2**31 - 1, 1]


class TestLimits:
    """The rule [data-plane/session-eviction]."""

    def test_partitions_of_all_sessions_are_limited(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(fetch_sessions, "MAX_SESSION_PARTITIONS", 10)
        sessions = Sessions(100)
        assert [sessions.open(size, 0) for size in (11, 6, 5, 4)] == [NO_SESSION, 1, NO_SESSION, 2]
        assert sessions.open(10, EVICTION_MS + 1) == 3
        assert sessions.cache.session_count == 1

    def test_session_that_grows_too_large_is_closed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(fetch_sessions, "MAX_SESSION_PARTITIONS", 3)
        client = Client(make_broker())
        client.broker.controller.create("t", 4, {})
        opened = client.call(fetch_request((0, 0), session_epoch=0), 12)
        more = fetch_request((1, 0), (2, 0), (3, 0), session_id=opened.session_id, session_epoch=1)
        assert client.call(more, 12).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        assert client.broker.fetch_sessions.partition_count == 0
