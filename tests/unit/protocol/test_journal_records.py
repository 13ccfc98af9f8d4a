"""Records of the journal: their bytes never change, and unknown ones are kept undecoded.

Rules: [journal/format].
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.protocol.errors import MalformedFrame
from coterie.protocol.messages.consumer_group_facts import (
    GroupConverged,
    GroupEpochRaised,
    GroupTypeChanged,
    MemberReconciled,
    RegexResolved,
    StaticMemberLeft,
    TargetComputed,
)
from coterie.protocol.messages.journal_records import (
    FACT_NAMES,
    FACTS,
    Fact,
    GenerationCompleted,
    GenerationMember,
    GroupDeleted,
    GroupEmptied,
    GroupExpired,
    JoinCompleted,
    JoinPhaseExtended,
    MemberFenced,
    MemberJoined,
    MemberRemoved,
    PendingMemberExpired,
    RebalanceBegan,
    StaticMemberReplaced,
    UnknownFact,
    decode_fact,
    encode_fact,
)
from coterie.protocol.messages.offset_facts import ExpiredOffset, ExpiredTopic, OffsetsExpired
from coterie.protocol.messages.partition_facts import PartitionLoaded, PartitionUnloaded
from coterie.protocol.messages.share_facts import LOCK_TIMEOUT, DeliveriesFailed, FailedDelivery

AT_MS = 1_795_298_400_000

# These bytes are in existing journals, so none of them may change.
GOLDEN: list[tuple[str, Fact, str, str]] = [
    (
        "orders",
        RebalanceBegan(
            at_ms=AT_MS,
            cause="join",
            previous_state="Stable",
            generation_id=3,
            member_count=2,
            timeout_ms=300_000,
            member_id="c2-1",
            client_id="c2",
            client_host="/127.0.0.1",
            reason="rebalance",
        ),
        "000100066f7264657273",
        (
            "0000000001a2001f9700056a6f696e07537461626c650000000300000002000493e0ffffffff0563322d3100"
            "0363320b2f3132372e302e302e310a726562616c616e636500000000"
        ),
    ),
    (
        "orders",
        MemberRemoved(
            at_ms=AT_MS,
            cause="session expiry",
            member_id="c1-1",
            group_instance_id="i1",
            client_id="c1",
            client_host="/127.0.0.1",
            state="Stable",
            generation_id=3,
            member_count=1,
            was_leader=True,
            leader="c2-1",
            last_heard_ms=AT_MS - 10_000,
            session_timeout_ms=10_000,
        ),
        "000300066f7264657273",
        (
            "0000000001a2001f97000f73657373696f6e206578706972790563312d310369310363310b2f3132372e302e"
            "302e3107537461626c650000000300000001010563322d31000001a2001f6ff00000271000000000"
        ),
    ),
    (
        "orders",
        GenerationCompleted(
            at_ms=AT_MS,
            generation_id=4,
            protocol_type="consumer",
            protocol_name="range",
            leader="c1-1",
            began_ms=AT_MS - 100,
            join_ms=90,
            sync_ms=10,
            members=[
                GenerationMember(
                    member_id="c1-1",
                    client_id="c1",
                    client_host="/127.0.0.1",
                    session_timeout_ms=10_000,
                    rebalance_timeout_ms=300_000,
                    joined_after_ms=3,
                    subscription=bytes.fromhex("00000000000100056f7264657273ffffffff"),
                    assignment=b"",
                )
            ],
        ),
        "000a00066f7264657273",
        (
            "0000000001a2001f97000000000409636f6e73756d65720672616e67650563312d31000001a2001f969c0000"
            "00000000005a000000000000000a020563312d31000363310b2f3132372e302e302e3100002710000493e000"
            "000000000000031300000000000100056f7264657273ffffffff010000"
        ),
    ),
    (
        "",
        PartitionLoaded(at_ms=AT_MS, partition=7, leader_epoch=2, group_count=3, member_count=5),
        "000f0000",
        "0000000001a2001f97000000000700000002000000030000000500",
    ),
]

OTHERS: list[Fact] = [
    MemberJoined(
        at_ms=AT_MS,
        member_id="c1-1",
        group_instance_id="i1",
        client_id="",
        client_host="/127.0.0.1",
        state="Empty",
        generation_id=0,
        member_count=1,
        session_timeout_ms=6_000,
        rebalance_timeout_ms=7_000,
        protocols=["range", "roundrobin"],
        reason="größer",
        client_software_name="librdkafka",
        client_software_version="2.5.0",
        principal="User:alice",
    ),
    MemberFenced(
        at_ms=1,
        member_id="a",
        group_instance_id="i",
        holder="b",
        generation_id=1,
        request="JoinGroup",
    ),
    MemberFenced(
        at_ms=1,
        member_id="a",
        holder="a",
        generation_id=4,
        request="ConsumerGroupHeartbeat",
        error_code=110,
        said_epoch=3,
        known_epoch=4,
    ),
    StaticMemberReplaced(
        at_ms=1,
        group_instance_id="i",
        member_id="b",
        old_member_id="a",
        client_id="c",
        client_host="/h",
        generation_id=2,
        state="Stable",
        rebalances=True,
    ),
    PendingMemberExpired(at_ms=1, member_id="a", state="Empty", generation_id=0),
    JoinPhaseExtended(at_ms=1, generation_id=2, member_count=3, wait_ms=4),
    JoinCompleted(
        at_ms=1,
        generation_id=2,
        protocol_type="consumer",
        protocol_name="range",
        leader="a",
        member_count=3,
        began_ms=0,
        join_ms=1,
        ended_by="all joined",
    ),
    GroupEmptied(at_ms=1, generation_id=2, began_ms=0, join_ms=1),
    GroupDeleted(at_ms=1, generation_id=2, offset_count=3, requester_client_id="admin"),
    GroupExpired(at_ms=1, generation_id=2),
    OffsetsExpired(
        at_ms=1,
        offset_count=1,
        topics=[
            ExpiredTopic(
                topic="sales", partitions=[ExpiredOffset(partition=3, committed_offset=2**40)]
            )
        ],
    ),
    PartitionUnloaded(at_ms=1, partition=7, group_count=3, cause="failed"),
    GroupEpochRaised(at_ms=1, epoch=3, cause="join", member_count=2, member_id="a"),
    TargetComputed(
        at_ms=1,
        epoch=3,
        assignor="uniform",
        member_count=2,
        changed_members=1,
        moved_partitions=4,
    ),
    MemberReconciled(
        at_ms=1,
        member_id="a",
        client_id="c",
        epoch=3,
        previous_epoch=2,
        state="UNREVOKED_PARTITIONS",
        previous_state="STABLE",
        added=0,
        revoked=4,
        state_ms=2**40,
    ),
    GroupConverged(at_ms=1, epoch=3, member_count=2, converged_ms=2**40),
    GroupTypeChanged(
        at_ms=1, group_type="consumer", previous_type="classic", epoch=3, member_count=2
    ),
    RegexResolved(at_ms=1, regex="a.*", topic_count=3, gained=2, lost=1),
    StaticMemberLeft(
        at_ms=1, group_instance_id="i", member_id="a", client_id="c", epoch=3, kept_ms=2**40
    ),
    DeliveriesFailed(
        at_ms=1,
        topic="t",
        partition=3,
        cause=LOCK_TIMEOUT,
        deliveries=[
            FailedDelivery(
                member_id="a",
                first_offset=2**40,
                last_offset=2**41,
                delivery_count=5,
                given_up=True,
            )
        ],
    ),
]


@pytest.mark.parametrize(
    ("group_id", "fact", "key", "value"), GOLDEN, ids=[g[2][:4] for g in GOLDEN]
)
def test_the_bytes_of_facts_are_unchanged(group_id: str, fact: Fact, key: str, value: str) -> None:
    assert encode_fact(group_id, fact) == (bytes.fromhex(key), bytes.fromhex(value))
    assert decode_fact(bytes.fromhex(key), bytes.fromhex(value)) == (group_id, fact)


def test_every_fact_is_decoded_as_it_was_encoded() -> None:
    facts = [fact for _, fact, _, _ in GOLDEN] + OTHERS
    assert {type(fact) for fact in facts} == set(FACT_NAMES), "every type of fact is tested"
    for fact in facts:
        assert decode_fact(*encode_fact("g", fact)) == ("g", fact)


@given(st.text(max_size=300), st.text(max_size=300), st.none() | st.text(max_size=300))
def test_facts_hold_any_text(group_id: str, member_id: str, reason: str | None) -> None:
    fact = RebalanceBegan(
        at_ms=0,
        cause="join",
        previous_state="Empty",
        generation_id=0,
        member_count=1,
        timeout_ms=0,
        member_id=member_id,
        reason=reason,
    )
    assert decode_fact(*encode_fact(group_id, fact)) == (group_id, fact)


def test_record_types_and_names_are_unique() -> None:
    numbers = [each.record_type for each in FACTS]
    assert numbers == sorted(set(numbers))
    assert len({each.name for each in FACTS}) == len(FACTS) == len(FACT_NAMES)


def test_unknown_versions_and_types_are_kept_undecoded() -> None:
    key, value = encode_fact("orders", GroupExpired(at_ms=1, generation_id=2))
    newer = b"\0\1" + value[2:] + b"more"
    assert decode_fact(key, newer) == ("orders", UnknownFact(13, 1, value[2:] + b"more"))
    other = (999).to_bytes(2, "big") + key[2:]
    assert decode_fact(other, value) == ("orders", UnknownFact(999, 0, value[2:]))


def test_unknown_tagged_fields_are_skipped() -> None:
    fact = GroupExpired(at_ms=1, generation_id=2)
    key, value = encode_fact("orders", fact)
    assert value.endswith(b"\0"), "a body ends with its tagged fields, of which there are none"
    tagged = value[:-1] + b"\x01\x05\x03new"
    assert decode_fact(key, tagged) == ("orders", fact)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"\0\0"),
        (b"\0\x0d\0\1g", None),
        (b"", b"\0\0"),
        (b"\0\x0d\0", b"\0\0"),
        (b"\0\x0d\0\2g", b"\0\0"),
        (b"\0\x0d\0\1gg", b"\0\0"),
        (b"\0\x0d\0\1\xff", b"\0\0"),
        (b"\0\x0d\0\1g", b"\0"),
        (b"\0\x0d\0\1g", b"\0\0\0\0\0\0"),
        (b"\0\x0d\0\1g", b"\0\0" + bytes(12) + b"\0more"),
    ],
)
def test_other_records_are_malformed(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(MalformedFrame):
        decode_fact(key, value)
