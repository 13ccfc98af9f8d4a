"""The timeline of `coterie groups history`: the line of each fact, and the owners of partitions."""

from pathlib import Path

import pytest

from coterie.cli.groups.journal_events import JournalEvents
from coterie.cli.timeline import SHOWN_MEMBERS, Timeline
from coterie.client.times import duration_text
from coterie.protocol.messages import journal_records as facts
from coterie.protocol.messages.consumer_group_facts import GroupTypeChanged, StaticMemberLeft
from coterie.protocol.messages.journal_records import decode_fact
from coterie.protocol.messages.offset_facts import ExpiredOffset, ExpiredTopic, OffsetsExpired
from coterie.protocol.messages.partition_facts import PartitionLoaded, PartitionUnloaded
from coterie.protocol.messages.share_facts import (
    LOCK_TIMEOUT,
    RELEASE,
    DeliveriesFailed,
    FailedDelivery,
)
from coterie.protocol.records import decode_records, iterate_batches
from tests.unit.cli.test_groups_history import AT_MS, UUID, began, completed, joined

GOLDEN = Path(__file__).parents[2] / "golden"


def lines_of(*some: facts.Fact) -> list[str]:
    """Return the lines of facts, without day and time."""
    events, timeline = JournalEvents(), Timeline()
    lines = [line for fact in some for line in timeline.lines(events.event(fact))]
    return ["".join(text for text, _ in line)[14:].rstrip() for line in lines[1:]]


@pytest.mark.parametrize(
    ("fact", "line"),
    [
        (
            GroupTypeChanged(
                at_ms=AT_MS, group_type="consumer", previous_type="classic", epoch=4, member_count=2
            ),
            (
                "◆ upgrade                   the group became a consumer group, "
                "generation 4 is epoch 4 now, 2 members"
            ),
        ),
        (
            GroupTypeChanged(
                at_ms=AT_MS, group_type="classic", previous_type="consumer", epoch=9, member_count=1
            ),
            (
                "◆ downgrade                 the group became a classic group, "
                "epoch 9 is generation 9 now, 1 member"
            ),
        ),
        (
            facts.MemberRemoved(
                at_ms=AT_MS,
                cause="session expiry",
                member_id=f"consumer-1-{UUID}",
                client_id="consumer-1",
                client_host="/10.0.0.1",
                state="Stable",
                generation_id=3,
                member_count=1,
                was_leader=True,
                leader="b",
                last_heard_ms=AT_MS - 10_000,
                session_timeout_ms=10_000,
            ),
            (
                "- consumer-1-0f3e9a52 removed  session expiry, last heard from 10.00 s earlier, "
                "client consumer-1 at 10.0.0.1, was the leader, 1 member remaining"
            ),
        ),
        (
            facts.MemberRemoved(
                at_ms=AT_MS,
                cause="admin removal",
                member_id="a",
                group_instance_id="i1",
                client_id="c",
                client_host="/h",
                state="Stable",
                generation_id=3,
                member_count=0,
                was_leader=False,
                session_timeout_ms=1,
                reason="host gone",
                requester_client_id="tool",
                requester_host="/10.0.0.9",
                requester_principal="User:admin",
            ),
            (
                "- i1 removed                admin removal, client c at h, 0 members remaining, "
                '"host gone", requested by client tool at 10.0.0.9, logged in as User:admin'
            ),
        ),
        (
            began(AT_MS, "sync timeout", "a", previous_state="CompletingRebalance"),
            (
                "▷ rebalance began           a did not send SyncGroup in time, before the previous "
                "rebalance had completed"
            ),
        ),
        (
            began(AT_MS, "leader rejoin", "a"),
            (
                "▷ rebalance began           the leader a rejoined: its topics changed or it asked "
                "for a rebalance"
            ),
        ),
        (
            began(AT_MS, "load", None),
            "▷ rebalance began           the group is larger than group.max.size",
        ),
        (
            began(AT_MS, "a cause of tomorrow", "a"),
            "▷ rebalance began           a cause of tomorrow a",
        ),
        (
            facts.MemberFenced(
                at_ms=AT_MS,
                member_id="a",
                group_instance_id="i1",
                holder="b",
                generation_id=1,
                request="JoinGroup",
            ),
            "! i1 fenced                 JoinGroup of a was refused: b has this instance id",
        ),
        (
            facts.MemberFenced(
                at_ms=AT_MS,
                member_id="a",
                holder="a",
                generation_id=4,
                request="ConsumerGroupHeartbeat",
                error_code=110,
                said_epoch=3,
                known_epoch=4,
            ),
            (
                "! a fenced                  ConsumerGroupHeartbeat with epoch 3 was refused: the"
                " epoch of the member is 4"
            ),
        ),
        (
            StaticMemberLeft(
                at_ms=AT_MS,
                group_instance_id="i1",
                member_id="a",
                client_id="c",
                epoch=4,
                kept_ms=44_000,
            ),
            "- i1 is away                epoch 4, its partitions wait 44.00 s for it",
        ),
        (
            DeliveriesFailed(
                at_ms=AT_MS,
                topic="orders",
                partition=2,
                cause=LOCK_TIMEOUT,
                deliveries=[
                    FailedDelivery(
                        member_id="a",
                        first_offset=7,
                        last_offset=8,
                        delivery_count=4,
                        given_up=False,
                    ),
                    FailedDelivery(
                        member_id="a",
                        first_offset=11,
                        last_offset=11,
                        delivery_count=5,
                        given_up=True,
                    ),
                ],
            ),
            (
                "! 3 records timed out       orders-2 at 7-8, 11, held by a, delivered 5 times, 1"
                " given up"
            ),
        ),
        (
            DeliveriesFailed(
                at_ms=AT_MS,
                topic="orders",
                partition=2,
                cause=RELEASE,
                deliveries=[
                    FailedDelivery(
                        member_id="a",
                        first_offset=11,
                        last_offset=11,
                        delivery_count=5,
                        given_up=True,
                    )
                ],
            ),
            "! 1 record given up         orders-2 at 11, released by a, delivered 5 times",
        ),
        (
            facts.StaticMemberReplaced(
                at_ms=AT_MS,
                group_instance_id="i1",
                member_id="b",
                old_member_id="a",
                client_id="c",
                client_host="/h",
                generation_id=1,
                state="Stable",
                rebalances=False,
            ),
            "± i1 restarted              client c at h, without a rebalance",
        ),
        (
            facts.PendingMemberExpired(
                at_ms=AT_MS, member_id="a", state="PreparingRebalance", generation_id=1
            ),
            (
                "- a dropped                 it was given a member id but never joined with it, "
                "the rebalance waited for it"
            ),
        ),
        (
            facts.JoinPhaseExtended(at_ms=AT_MS, generation_id=1, member_count=2, wait_ms=60_000),
            (
                "· join phase extended       none of 2 static members has rejoined, "
                "waiting 1 min 0 s more"
            ),
        ),
        (
            facts.JoinCompleted(
                at_ms=AT_MS,
                generation_id=2,
                protocol_type="consumer",
                protocol_name="range",
                leader="a",
                member_count=1,
                began_ms=AT_MS - 60_000,
                join_ms=60_000,
                ended_by="rebalance timeout",
            ),
            (
                "· generation 2 joined       rebalance timeout after 1 min 0 s, 1 member, range, "
                "leader a"
            ),
        ),
        (
            facts.GroupEmptied(at_ms=AT_MS, generation_id=3, began_ms=AT_MS, join_ms=0),
            "□ group empty               generation 3, no members left",
        ),
        (
            facts.GroupDeleted(at_ms=AT_MS, generation_id=3, offset_count=1),
            "✗ group deleted             with 1 offset",
        ),
        (
            facts.GroupExpired(at_ms=AT_MS, generation_id=3),
            "✗ group expired             generation 3, no members and no offsets left",
        ),
        (
            OffsetsExpired(
                at_ms=AT_MS,
                offset_count=3,
                topics=[
                    ExpiredTopic(
                        topic="t",
                        partitions=[
                            ExpiredOffset(partition=index, committed_offset=1)
                            for index in (5, 0, 1)
                        ],
                    )
                ],
            ),
            "✗ offsets expired           3 offsets, t 0-1,5",
        ),
        (
            PartitionLoaded(at_ms=AT_MS, partition=7, group_count=1),
            "○ coordinator loaded        the broker loaded __consumer_offsets-7",
        ),
        (
            PartitionUnloaded(at_ms=AT_MS, partition=7, group_count=1, cause="failed"),
            "● coordinator unloaded      __consumer_offsets-7: the log can't be used",
        ),
    ],
)
def test_each_fact_has_its_line(fact: facts.Fact, line: str) -> None:
    assert " ".join(each.strip() for each in lines_of(fact)) == line


def test_names_from_clients_cannot_control_the_terminal() -> None:
    (line, _) = lines_of(joined(AT_MS, "a\x1b[2J", reason="b\x07"), began(AT_MS, "join", "\x1b[0m"))
    assert "\x1b" not in line
    assert "\\x1b[2J" in line


def test_undecodable_assignments_are_shown_by_size() -> None:
    lines = lines_of(
        completed(AT_MS, 1, {"w1": b"xyz"}, protocol_type="connect"),
        completed(AT_MS, 2, {"c1": b"\xff\xff"}),
    )
    assert [line for line in lines if line.startswith("└")] == ["└ w1  3 bytes", "└ c1  2 bytes"]
    assert not any("partition" in line for line in lines)


def test_only_the_first_members_of_a_large_group_are_shown() -> None:
    owners: dict[str, list[int] | bytes] = {f"c{n:03d}": [n] for n in range(SHOWN_MEMBERS + 5)}
    lines = lines_of(completed(AT_MS, 1, owners))
    assert sum(line.startswith("├") for line in lines) == SHOWN_MEMBERS
    assert lines[-1] == "└ and 5 more"


def test_lines_are_wrapped_at_100_columns() -> None:
    """[terminal/timelines]"""
    long = f"a-client-whose-name-is-as-long-as-that-of-a-pod-in-a-large-cluster-{UUID}"
    numbers = [each for each in range(300) if each % 3]
    events, timeline = JournalEvents(), Timeline()
    some: list[facts.Fact] = [
        joined(AT_MS, long, reason="a long reason " * 20),
        began(AT_MS, "join", long, reason="a long reason " * 20),
        completed(AT_MS, 1, {long: numbers, "short": [0, 3]}),
    ]
    lines = [line for fact in some for line in timeline.lines(events.event(fact))]
    texts = ["".join(text for text, _ in line).rstrip() for line in lines]
    assert max(map(len, texts)) <= 100
    assert all(f"{n}" in "".join(texts) for n in (298, 299))


def test_static_member_that_was_restarted_expires_under_its_new_client() -> None:
    """[pipeline/static-restart]"""
    restarted = facts.StaticMemberReplaced(
        at_ms=AT_MS, group_instance_id="i1", member_id="b", old_member_id="a", client_id="second",
        client_host="/other", generation_id=1, state="Stable", rebalances=False,
    )  # fmt: skip
    expired = facts.MemberRemoved(
        at_ms=AT_MS, cause="session expiry", member_id="b", group_instance_id="i1",
        client_id="first", client_host="/h", state="Stable", generation_id=1, member_count=0,
        was_leader=False, session_timeout_ms=6000,
    )  # fmt: skip
    text = " ".join(lines_of(restarted, expired))
    assert "client second at other, 0 members" in " ".join(text.split())
    assert "first" not in text


@pytest.mark.parametrize(
    ("duration_ms", "text"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1_000, "1.00 s"),
        (59_999, "60.00 s"),
        (60_000, "1 min 0 s"),
        (3_599_999, "59 min 59 s"),
        (7_260_000, "2 h 1 min"),
    ],
)
def test_durations(duration_ms: int, text: str) -> None:
    assert duration_text(duration_ms) == text


def test_tasks_of_connect_workers_are_shown_with_the_delay() -> None:
    buffer = (GOLDEN / "connect" / "journal.log").read_bytes()
    recorded = [
        decode_fact(record.key or b"", record.value).fact
        for position, header in iterate_batches(buffer)
        for record in decode_records(buffer, header, position)
    ]
    generations = [each for each in recorded if isinstance(each, facts.GenerationCompleted)]
    assert lines_of(*generations[4:5]) == [
        "■ generation 5 stable       2.02 s (join 2.01 s, sync 6 ms), 1 member, sessioned; 3",
        "                            tasks, lost tasks wait 5.00 s",
        "└ connect-127.0.0.1:18583-a3113329  sink4: connector, tasks 0,2  (joined after 2.01 s)",
    ]
