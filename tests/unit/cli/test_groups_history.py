"""`coterie groups history`: its text, its JSON, and brokers without a journal."""

import json
from typing import Any

import pytest

from coterie.protocol.api_keys import SERVED_VERSIONS, ApiKey
from coterie.protocol.errors import ErrorCode
from coterie.protocol.java_hash import partition_for
from coterie.protocol.messages import journal_records as facts
from coterie.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    encode_assignment,
    encode_subscription,
)
from coterie.protocol.messages.describe_configs import (
    DescribeConfigsResponse,
    DescribeConfigsResponseConfig,
    DescribeConfigsResponseResult,
)
from coterie.protocol.messages.fetch import (
    FetchRequest,
    FetchResponse,
    FetchResponsePartition,
    FetchResponseTopic,
)
from coterie.protocol.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsResponsePartition,
    ListOffsetsResponseTopic,
)
from coterie.protocol.messages.partition_facts import PartitionLoaded
from coterie.protocol.records import encode_batch
from coterie.protocol.topic_names import JOURNAL_TOPIC
from tests.unit.cli.command import described, group, rows_of, run
from tests.unit.client.fake_broker import FakeBroker

# 2026-11-22 10:00:00 UTC
AT_MS = 1_795_341_600_000
UUID = "0f3e9a52-1c33-4f4e-9d0a-6a2b7c8d9e0f"


def began(at_ms: int, cause: str, member_id: str | None, **fields: Any) -> facts.RebalanceBegan:
    values = {"previous_state": "Stable", "generation_id": 9, "member_count": 2, **fields}
    return facts.RebalanceBegan(
        at_ms=at_ms, cause=cause, member_id=member_id, timeout_ms=60_000, **values
    )


def joined(at_ms: int, member_id: str, **fields: Any) -> facts.MemberJoined:
    return facts.MemberJoined(
        at_ms=at_ms,
        member_id=member_id,
        client_id=member_id,
        client_host="/127.0.0.1",
        state="Stable",
        generation_id=9,
        member_count=2,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        protocols=["cooperative-sticky"],
        **fields,
    )


def completed(
    at_ms: int, generation_id: int, owners: dict[str, list[int] | bytes], **fields: Any
) -> facts.GenerationCompleted:
    members = []
    for name, owned in owners.items():
        parts = [] if isinstance(owned, bytes) else [TopicPartition(topic="t", partitions=owned)]
        given = encode_assignment(ConsumerProtocolAssignment(assigned_partitions=parts))
        members.append(
            facts.GenerationMember(
                member_id=name,
                client_id=name,
                client_host="/127.0.0.1",
                session_timeout_ms=10_000,
                rebalance_timeout_ms=60_000,
                joined_after_ms=3,
                subscription=encode_subscription(ConsumerProtocolSubscription(topics=["t"])),
                assignment=owned if isinstance(owned, bytes) else given,
            )
        )
    values = {"protocol_type": "consumer", "protocol_name": "cooperative-sticky", **fields}
    return facts.GenerationCompleted(
        at_ms=at_ms,
        generation_id=generation_id,
        leader=next(iter(owners)),
        began_ms=at_ms - 45,
        join_ms=40,
        sync_ms=5,
        members=members,
        **values,
    )


# Two cooperative clients: c1 owns three partitions, c2 joins, c1 gives up one partition in
# generation 10, and c2 receives it in generation 11.
FACTS: list[facts.Fact] = [
    completed(AT_MS, 9, {"c1": [0, 1, 2]}),
    joined(AT_MS + 60_000, "c2", reason="scaling out"),
    began(AT_MS + 60_000, "join", "c2", reason="scaling out"),
    completed(AT_MS + 60_045, 10, {"c1": [0, 1], "c2": []}),
    began(
        AT_MS + 60_060,
        "rejoin with changed subscription",
        "c1",
        subscription_change="owned partitions",
    ),
    completed(AT_MS + 60_105, 11, {"c1": [0, 1], "c2": [2]}),
]
TEXT = """\
2026-11-22 UTC
10:00:00.000  ■ generation 9 stable       45 ms (join 40 ms, sync 5 ms), 1 member,
                                          cooperative-sticky; 3 partitions
              └ c1  t 0-2
10:01:00.000  + c2 joined                 client c2 at 127.0.0.1, 2 members, "scaling out"
10:01:00.000  ▷ rebalance began           c2 joined, "scaling out"
10:01:00.045  ■ generation 10 stable      45 ms (join 40 ms, sync 5 ms), 2 members,
                                          cooperative-sticky; 2 partitions, 1 without an owner
              ├ c1  t 0-1
              └ c2  nothing
10:01:00.060  ▷ rebalance began           c1 rejoined with other owned partitions (cooperative
                                          rebalancing)
10:01:00.105  ■ generation 11 stable      45 ms (join 40 ms, sync 5 ms), 2 members,
                                          cooperative-sticky; 3 partitions, 1 moved
              ├ c1  t 0-1
              └ c2  t 2
"""


class JournalBroker(FakeBroker):
    """A broker with a journal of one partition, one record per batch; the first may be deleted."""

    def __init__(
        self,
        records: list[tuple[bytes, bytes]],
        *,
        first: int = 0,
        fetch_versions: tuple[int, int] = SERVED_VERSIONS[ApiKey.FETCH],
        batches_at_once: int = 100,
    ) -> None:
        self.first = first
        self.batches = [
            encode_batch([record], offset, AT_MS + offset) for offset, record in enumerate(records)
        ]
        self.batches_at_once = batches_at_once
        responses = {
            ApiKey.FETCH: self.fetch,
            ApiKey.LIST_OFFSETS: self.list_offsets,
            ApiKey.DESCRIBE_GROUPS: described(group("orders", "Stable")),
        }
        super().__init__(
            responses,
            ranges={**SERVED_VERSIONS, ApiKey.FETCH: fetch_versions},
            topics={JOURNAL_TOPIC: 1, "__consumer_offsets": 4},
        )

    def fetch(self, request: FetchRequest, version: int) -> FetchResponse:
        (topic,) = request.topics
        named = topic.topic_id == bytes(range(16)) if version >= 13 else topic.topic
        assert named in (True, JOURNAL_TOPIC)
        (partition,) = topic.partitions
        found = self.batches[partition.fetch_offset :][: self.batches_at_once]
        deleted = partition.fetch_offset < self.first
        fetched = FetchResponsePartition(
            partition_index=0,
            error_code=ErrorCode.OFFSET_OUT_OF_RANGE if deleted else 0,
            high_watermark=len(self.batches),
            aborted_transactions=None,
            # The last batch is cut off, as if it exceeded the maximum size of the response.
            records=None if deleted else b"".join(found) + self.batches[0][:70],
        )
        return FetchResponse(
            responses=[
                FetchResponseTopic(topic=topic.topic, topic_id=topic.topic_id, partitions=[fetched])
            ]
        )

    def list_offsets(self, request: ListOffsetsRequest, _: int) -> ListOffsetsResponse:
        (topic,) = request.topics
        (partition,) = topic.partitions
        offset = self.first if partition.timestamp < 0 else partition.timestamp - AT_MS
        part = ListOffsetsResponsePartition(
            partition_index=0,
            error_code=0,
            offset=max(offset, 0) if offset < len(self.batches) else -1,
        )
        return ListOffsetsResponse(
            topics=[ListOffsetsResponseTopic(name=topic.name, partitions=[part])]
        )


def records_of(some: list[facts.Fact], group_id: str = "orders") -> list[tuple[bytes, bytes]]:
    return [facts.encode_fact(group_id, fact) for fact in some]


def history(broker: FakeBroker, *arguments: str) -> Any:
    return run(broker, "groups", "history", *arguments)


def test_timeline_of_two_cooperative_clients() -> None:
    others = records_of([facts.GroupExpired(at_ms=1, generation_id=1)], "other")
    with JournalBroker(others + records_of(FACTS) + others) as broker:
        result = history(broker, "orders")
    assert (result.exit_code, result.stdout) == (0, TEXT)


@pytest.mark.parametrize("versions", [(4, 4), (4, 12), (13, 18)])
def test_journal_is_read_to_its_end_in_every_version(versions: tuple[int, int]) -> None:
    with JournalBroker(records_of(FACTS), fetch_versions=versions, batches_at_once=2) as broker:
        assert history(broker, "orders").stdout == TEXT
        assert len(broker.seen(ApiKey.FETCH)) == 3


def test_json_has_facts_with_the_consumer_protocol_decoded() -> None:
    with JournalBroker(records_of(FACTS)) as broker:
        rows = rows_of(history(broker, "orders", "--json"))
    assert [row["event"] for row in rows] == [
        "generation_completed",
        "member_joined",
        "rebalance_began",
        "generation_completed",
        "rebalance_began",
        "generation_completed",
    ]
    assert list(rows[2])[:6] == ["group", "at", "event", "at_ms", "cause", "previous_state"]
    assert rows[2]["at"] == "2026-11-22T10:01:00.000+00:00"
    assert (rows[2]["cause"], rows[2]["member_id"]) == ("join", "c2")
    first = rows[5]["members"][0]
    assert first["assignment"] == {"t": [0, 1]}
    assert first["subscription"] == {"topics": ["t"], "owned": {}}
    assert first["joined_after_ms"] == 3


def test_limit_shows_the_last_rebalances_with_their_causes() -> None:
    with JournalBroker(records_of(FACTS)) as broker:
        one = rows_of(history(broker, "orders", "--json", "--limit", "1"))
        two = rows_of(history(broker, "orders", "--json", "--limit", "2"))
        none = rows_of(history(broker, "orders", "--json", "--limit", "0"))
        many = rows_of(history(broker, "orders", "--json", "--limit", "9"))
    assert [row["event"] for row in one] == ["rebalance_began", "generation_completed"]
    assert [row["event"] for row in two][:2] == ["member_joined", "rebalance_began"]
    assert (len(two), none, len(many)) == (5, [], 6)


@pytest.mark.parametrize("options", [("--limit", "1"), ("--since", "2026-11-22T10:00:00.005")])
def test_cut_history_has_the_same_lines_as_the_whole_one(options: tuple[str, str]) -> None:
    """[terminal/timelines]: the last generation moves one partition, not all of them."""
    with JournalBroker(records_of(FACTS)) as broker:
        shown = history(broker, "orders", *options).stdout.splitlines()
    assert shown[1:] == TEXT.splitlines()[-len(shown) + 1 :]
    assert "1 moved" in " ".join(shown)


def test_since_starts_at_a_time() -> None:
    with JournalBroker(records_of(FACTS)) as broker:
        rows = rows_of(history(broker, "orders", "--json", "--since", "2026-11-22T10:00:00.002"))
    assert len(rows) == 4, "the facts of the first two batches are older"
    assert rows[0]["cause"] == "join"


@pytest.mark.parametrize("since", ["30m", "2h", "7d", "90s", "PT1H30M", "2020-01-31T10:00:00"])
def test_since_accepts_durations_and_times(since: str) -> None:
    with JournalBroker(records_of(FACTS)) as broker:
        assert history(broker, "orders", "--since", since).exit_code == 0


def test_invalid_since_is_refused() -> None:
    with JournalBroker(records_of(FACTS)) as broker:
        result = history(broker, "orders", "--since", "yesterday")
    assert result.exit_code == 2
    assert "'yesterday' is neither a duration" in result.stderr


def test_deleted_records_are_skipped() -> None:
    with JournalBroker(records_of(FACTS), first=3) as broker:
        assert len(rows_of(history(broker, "orders", "--json"))) == 3


def test_facts_of_a_newer_release_are_left_out_and_counted() -> None:
    key, value = facts.encode_fact("orders", facts.GroupExpired(at_ms=1, generation_id=1))
    newer = [(key, b"\0\7" + value[2:]), (b"\x03\xe7" + key[2:], value)]
    with JournalBroker(records_of(FACTS) + newer) as broker:
        result = history(broker, "orders")
    assert (result.exit_code, result.stdout) == (0, TEXT)
    assert "2 facts are left out" in result.stderr


def test_only_loads_of_the_groups_own_partition_are_shown() -> None:
    own = partition_for("orders", 4)
    loads: list[facts.Fact] = [
        PartitionLoaded(at_ms=AT_MS, partition=index, group_count=1) for index in range(4)
    ]
    with JournalBroker(records_of(loads, "")) as broker:
        rows = rows_of(history(broker, "orders", "--json"))
    assert [row["partition"] for row in rows] == [own]


def test_group_without_facts() -> None:
    with JournalBroker(records_of(FACTS, "other")) as broker:
        result = history(broker, "orders")
        missing = history(broker, "nobody")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "The journal has nothing about group 'orders'" in result.stderr
    assert missing.exit_code == 1
    assert "Group 'nobody' does not exist." in missing.stderr


@pytest.mark.parametrize(
    ("settings", "cause", "remedy"),
    [
        ({}, "keeps no journal of its groups", "Only Coterie keeps a journal"),
        ({"journal.enable": "false"}, "was started with journal.enable=false", "=true"),
        ({"journal.enable": "true"}, "is empty", "first member of a group joins"),
    ],
)
def test_broker_without_a_journal(settings: dict[str, str], cause: str, remedy: str) -> None:
    configs = [
        DescribeConfigsResponseConfig(
            name=name,
            value=value,
            read_only=True,
            config_source=5,
            is_sensitive=False,
            synonyms=[],
        )
        for name, value in settings.items()
    ]
    result = DescribeConfigsResponseResult(
        error_code=0, error_message=None, resource_type=4, resource_name="1", configs=configs
    )
    responses = {ApiKey.DESCRIBE_CONFIGS: DescribeConfigsResponse(results=[result])}
    with FakeBroker(responses, topics={"t": 1}) as broker:
        shown = history(broker, "orders")
    assert shown.exit_code == 1
    assert cause in shown.stderr
    assert remedy in shown.stderr


def test_topic_of_that_name_that_is_not_a_journal() -> None:
    key = b"\0\1\0\6orders"
    with JournalBroker([(key, b"\0\0 not a fact")]) as broker:
        result = history(broker, "orders")
    assert result.exit_code == 1
    assert "The record at offset 0 of coterie.journal-0 is not a journal record" in result.stderr


def test_follow_prints_new_facts() -> None:
    records = records_of(FACTS)
    later = [encode_batch([record], offset, AT_MS) for offset, record in enumerate(records[3:], 3)]

    def fetch(request: FetchRequest, version: int) -> FetchResponse | None:
        if request.max_wait_ms and not later:
            # The broker closes the connection, which ends the command.
            return None
        if request.max_wait_ms:
            broker.batches += later
            later.clear()
        return broker.fetch(request, version)

    broker = JournalBroker(records[:3])
    broker.responses[ApiKey.FETCH] = fetch
    with broker:
        result = history(broker, "orders", "--json", "--follow")
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert len(rows) == len(FACTS)
    assert rows[-1]["generation_id"] == 11
    assert (result.exit_code, "closed the connection" in result.stderr) == (1, True)


def test_ctrl_c_ends_follow_without_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr("coterie.cli.groups.history.follow_history", interrupted)
    with JournalBroker(records_of(FACTS)) as broker:
        result = history(broker, "orders", "--follow")
    assert (result.exit_code, result.stdout) == (0, TEXT)
