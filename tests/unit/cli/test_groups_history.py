"""`coterie groups history`: what people and programs are told, and where there is no journal."""

import json
from typing import Any

import pytest

from coterie.protocol.api_keys import SERVED_VERSIONS, ApiKey
from coterie.protocol.errors import ErrorCode
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


# The story of two clients: C1 owns three partitions, C2 joins, one partition is taken away in
# generation 10 and given in generation 11.
STORY: list[facts.Fact] = [
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
TOLD = """\
2026-11-22 UTC
10:00:00.000  ■ generation 9 stable       45 ms (join 40 ms, sync 5 ms), 1 member, cooperative-sticky; 3 partitions
              └ c1  t 0-2
10:01:00.000  + c2 joined                 client c2 at 127.0.0.1, 2 members, "scaling out"
10:01:00.000  ▷ rebalance began           c2 joined, "scaling out"
10:01:00.045  ■ generation 10 stable      45 ms (join 40 ms, sync 5 ms), 2 members, cooperative-sticky; 2 partitions, 1 without an owner
              ├ c1  t 0-1
              └ c2  nothing
10:01:00.060  ▷ rebalance began           c1 came back with other partitions, as cooperative members do
10:01:00.105  ■ generation 11 stable      45 ms (join 40 ms, sync 5 ms), 2 members, cooperative-sticky; 3 partitions, 1 moved
              ├ c1  t 0-1
              └ c2  t 2
"""  # noqa: E501 - as it stands on a wide terminal


class JournalBroker(FakeBroker):
    """A broker with a journal of one partition, one batch a record, the first of them gone."""

    def __init__(
        self,
        records: list[tuple[bytes, bytes]],
        *,
        first: int = 0,
        fetch_versions: tuple[int, int] = SERVED_VERSIONS[ApiKey.FETCH],
        batches_at_once: int = 100,
        **more: Any,
    ) -> None:
        self.first = first
        self.batches = [
            encode_batch([record], offset, AT_MS + offset) for offset, record in enumerate(records)
        ]
        self.batches_at_once = batches_at_once
        answers = {
            ApiKey.FETCH: self.fetch,
            ApiKey.LIST_OFFSETS: self.list_offsets,
            ApiKey.DESCRIBE_GROUPS: described(group("orders", "Stable")),
            **more,
        }
        super().__init__(
            answers,
            ranges={**SERVED_VERSIONS, ApiKey.FETCH: fetch_versions},
            topics={JOURNAL_TOPIC: 1, "__consumer_offsets": 4},
        )

    def fetch(self, request: FetchRequest, version: int) -> FetchResponse:
        (topic,) = request.topics
        named = topic.topic_id == bytes(range(16)) if version >= 13 else topic.topic
        assert named in (True, JOURNAL_TOPIC)
        (asked,) = topic.partitions
        found = self.batches[asked.fetch_offset :][: self.batches_at_once]
        gone = asked.fetch_offset < self.first
        answer = FetchResponsePartition(
            partition_index=0,
            error_code=ErrorCode.OFFSET_OUT_OF_RANGE if gone else 0,
            high_watermark=len(self.batches),
            aborted_transactions=None,
            # With the beginning of a batch that had no room any more.
            records=None if gone else b"".join(found) + self.batches[0][:70],
        )
        return FetchResponse(
            responses=[
                FetchResponseTopic(topic=topic.topic, topic_id=topic.topic_id, partitions=[answer])
            ]
        )

    def list_offsets(self, request: ListOffsetsRequest, _: int) -> ListOffsetsResponse:
        (topic,) = request.topics
        (asked,) = topic.partitions
        offset = self.first if asked.timestamp < 0 else asked.timestamp - AT_MS
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


def test_the_story_of_two_clients_as_people_read_it() -> None:
    others = records_of([facts.GroupExpired(at_ms=1, generation_id=1)], "other")
    with JournalBroker(others + records_of(STORY) + others) as broker:
        result = history(broker, "orders")
    assert (result.exit_code, result.stdout) == (0, TOLD)


@pytest.mark.parametrize("versions", [(4, 4), (4, 12), (13, 18)])
def test_it_reads_on_until_the_end_in_every_version(versions: tuple[int, int]) -> None:
    with JournalBroker(records_of(STORY), fetch_versions=versions, batches_at_once=2) as broker:
        assert history(broker, "orders").stdout == TOLD
        assert len(broker.seen(ApiKey.FETCH)) == 3


def test_programs_get_facts_with_what_was_opaque_opened() -> None:
    with JournalBroker(records_of(STORY)) as broker:
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


def test_the_last_rebalances_with_what_led_to_them() -> None:
    with JournalBroker(records_of(STORY)) as broker:
        one = rows_of(history(broker, "orders", "--json", "--limit", "1"))
        two = rows_of(history(broker, "orders", "--json", "--limit", "2"))
        none = rows_of(history(broker, "orders", "--json", "--limit", "0"))
        many = rows_of(history(broker, "orders", "--json", "--limit", "9"))
    assert [row["event"] for row in one] == ["rebalance_began", "generation_completed"]
    assert [row["event"] for row in two][:2] == ["member_joined", "rebalance_began"]
    assert (len(two), none, len(many)) == (5, [], 6)


def test_since_a_moment() -> None:
    with JournalBroker(records_of(STORY)) as broker:
        rows = rows_of(history(broker, "orders", "--json", "--since", "2026-11-22T10:00:00.002"))
    assert len(rows) == 4, "two batches are older, and of the others all"
    assert rows[0]["cause"] == "join"


@pytest.mark.parametrize("since", ["30m", "2h", "7d", "90s", "PT1H30M", "2020-01-31T10:00:00"])
def test_since_takes_what_people_write(since: str) -> None:
    with JournalBroker(records_of(STORY)) as broker:
        assert history(broker, "orders", "--since", since).exit_code == 0


def test_since_nonsense_is_refused() -> None:
    with JournalBroker(records_of(STORY)) as broker:
        result = history(broker, "orders", "--since", "yesterday")
    assert result.exit_code == 2
    assert "'yesterday' is neither a duration" in result.stderr


def test_records_that_are_gone_are_skipped() -> None:
    with JournalBroker(records_of(STORY), first=3) as broker:
        assert len(rows_of(history(broker, "orders", "--json"))) == 3


def test_facts_of_a_newer_release_are_counted() -> None:
    key, value = facts.encode_fact("orders", facts.GroupExpired(at_ms=1, generation_id=1))
    newer = [(key, b"\0\7" + value[2:]), (b"\x03\xe7" + key[2:], value)]
    with JournalBroker(records_of(STORY) + newer) as broker:
        result = history(broker, "orders")
    assert (result.exit_code, result.stdout) == (0, TOLD)
    assert "2 facts are left out" in result.stderr


def test_loads_of_the_groups_partition_are_told_and_others_are_not() -> None:
    # "orders" is in partition 3 of 4.
    from coterie.coordinator.placement import partition_for

    mine = partition_for("orders", 4)
    loads: list[facts.Fact] = [
        facts.PartitionLoaded(at_ms=AT_MS, partition=index, group_count=1) for index in range(4)
    ]
    with JournalBroker(records_of(loads, "")) as broker:
        rows = rows_of(history(broker, "orders", "--json"))
    assert [row["partition"] for row in rows] == [mine]


# --- where there is nothing to tell ---------------------------------------------------------------


def test_a_group_that_nothing_happened_to() -> None:
    with JournalBroker(records_of(STORY, "other")) as broker:
        result = history(broker, "orders")
        missing = history(broker, "nobody")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "Nothing has happened to group 'orders'" in result.stderr
    assert missing.exit_code == 1
    assert "Group 'nobody' does not exist." in missing.stderr


@pytest.mark.parametrize(
    ("settings", "cause", "remedy"),
    [
        ({}, "keeps no journal of its groups", "Coterie keeps one"),
        ({"journal.enable": "false"}, "was started with journal.enable=false", "=true"),
        ({"journal.enable": "true"}, "is empty", "first member of the first group"),
    ],
)
def test_a_broker_without_a_journal(settings: dict[str, str], cause: str, remedy: str) -> None:
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
    answers = {ApiKey.DESCRIBE_CONFIGS: DescribeConfigsResponse(results=[result])}
    with FakeBroker(answers, topics={"t": 1}) as broker:
        told = history(broker, "orders")
    assert told.exit_code == 1
    assert cause in told.stderr
    assert remedy in told.stderr


def test_a_topic_of_that_name_that_is_no_journal() -> None:
    key = b"\0\1\0\6orders"
    with JournalBroker([(key, b"\0\0 not a fact")]) as broker:
        told = history(broker, "orders")
    assert told.exit_code == 1
    assert "record at offset 0 of coterie.journal-0 is none of a journal" in told.stderr


# --- following ------------------------------------------------------------------------------------


def test_following_tells_what_comes_and_ends_with_ctrl_c() -> None:
    class Growing(JournalBroker):
        def fetch(self, request: FetchRequest, version: int) -> FetchResponse:
            if request.max_wait_ms:
                if self.later is None:
                    # The broker goes away: the command says so, which ends the test.
                    return None  # type: ignore[return-value]
                self.batches += self.later
                self.later = None
            return super().fetch(request, version)

    records = records_of(STORY)
    with Growing(records[:3]) as broker:
        broker.later = [  # type: ignore[attr-defined]
            encode_batch([record], offset, AT_MS) for offset, record in enumerate(records[3:], 3)
        ]
        result = history(broker, "orders", "--json", "--follow")
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert len(rows) == len(STORY)
    assert rows[-1]["generation_id"] == 11
    assert (result.exit_code, "closed the connection" in result.stderr) == (1, True)


def test_ctrl_c_is_how_one_stops_looking(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr("coterie.cli.groups_history.follow_history", interrupted)
    with JournalBroker(records_of(STORY)) as broker:
        result = history(broker, "orders", "--follow")
    assert (result.exit_code, result.stdout) == (0, TOLD)
