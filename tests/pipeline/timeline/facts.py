"""Facts of a journal and generations of a group log, in short form for tests."""

from typing import Any

from coterie.assignors.model import TopicPartition
from coterie.pipeline.timeline.model import Generation, RecordedMember
from coterie.protocol.messages import consumer_protocol as consumer
from coterie.protocol.messages import journal_records as journal

HOST = "/127.0.0.1"


def partitions(text: str) -> tuple[TopicPartition, ...]:
    """Return `a-0 a-1` as partitions."""
    pairs = (each.rsplit("-", 1) for each in text.split())
    return tuple(TopicPartition(topic, int(number)) for topic, number in pairs)


def _listed(text: str) -> list[consumer.TopicPartition]:
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions(text):
        topics.setdefault(topic, []).append(partition)
    return [consumer.TopicPartition(topic=name, partitions=each) for name, each in topics.items()]


def member_of(
    name: str, assigned: str = "", *, after: int = 0, owned: str = "", instance: str | None = None
) -> journal.GenerationMember:
    """Return a member of a completed generation that rejoined after `after` milliseconds."""
    subscription = consumer.ConsumerProtocolSubscription(
        topics=["a"], owned_partitions=_listed(owned)
    )
    assignment = consumer.ConsumerProtocolAssignment(assigned_partitions=_listed(assigned))
    return journal.GenerationMember(
        member_id=name,
        group_instance_id=instance,
        client_id=f"client-{name}",
        client_host=HOST,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        joined_after_ms=after,
        subscription=consumer.encode_subscription(subscription),
        assignment=consumer.encode_assignment(assignment),
    )


def began(at_ms: int, cause: str, by: str | None, generation: int, **fields: Any) -> Any:
    return journal.RebalanceBegan(
        at_ms=at_ms,
        cause=cause,
        previous_state=fields.pop("state", "Stable"),
        generation_id=generation,
        member_count=fields.pop("members", 1),
        timeout_ms=60_000,
        member_id=by,
        client_id=by and f"client-{by}",
        client_host=by and HOST,
        **fields,
    )


def joined(at_ms: int, name: str, instance: str | None = None) -> Any:
    return journal.MemberJoined(
        at_ms=at_ms,
        member_id=name,
        group_instance_id=instance,
        client_id=f"client-{name}",
        client_host=HOST,
        state="Stable",
        generation_id=0,
        member_count=1,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        protocols=["range"],
    )


def removed(at_ms: int, name: str, cause: str, instance: str | None = None) -> Any:
    return journal.MemberRemoved(
        at_ms=at_ms,
        cause=cause,
        member_id=name,
        group_instance_id=instance,
        client_id=f"client-{name}",
        client_host=HOST,
        state="Stable",
        generation_id=0,
        member_count=1,
        was_leader=False,
        session_timeout_ms=10_000,
    )


def replaced(
    at_ms: int, instance: str, old: str, new: str, client_id: str = "c", client_host: str = "/h"
) -> Any:
    """A static member that was restarted in generation 1, without a rebalance."""
    return journal.StaticMemberReplaced(
        at_ms=at_ms,
        group_instance_id=instance,
        member_id=new,
        old_member_id=old,
        client_id=client_id,
        client_host=client_host,
        generation_id=1,
        state="Stable",
        rebalances=False,
    )


def join_done(at_ms: int, generation: int, began_ms: int) -> Any:
    return journal.JoinCompleted(
        at_ms=at_ms,
        generation_id=generation,
        protocol_type="consumer",
        protocol_name="range",
        leader="one",
        member_count=1,
        began_ms=began_ms,
        join_ms=at_ms - began_ms,
        ended_by="all joined",
    )


def completed(
    at_ms: int,
    generation: int,
    began_ms: int,
    *members: journal.GenerationMember,
    protocol: str = "range",
    sync_ms: int = 10,
) -> Any:
    return journal.GenerationCompleted(
        at_ms=at_ms,
        generation_id=generation,
        protocol_type="consumer",
        protocol_name=protocol,
        leader=members[0].member_id,
        began_ms=began_ms,
        join_ms=at_ms - began_ms - sync_ms,
        sync_ms=sync_ms,
        members=list(members),
    )


def first_generation(assigned: str) -> tuple[Any, ...]:
    """Member `one` joins an empty group at 0 and owns the partitions from 100 on."""
    return (
        joined(0, "one"),
        began(0, "join", "one", 0, state="Empty", initial_delay_ms=50),
        join_done(90, 1, 0),
        completed(100, 1, 0, member_of("one", assigned)),
    )


def logged(generation: int, at_ms: int, protocol: str = "range", **assigned: str) -> Generation:
    """Return a generation of the group log; `assigned` has the partitions of each member."""
    members = tuple(
        RecordedMember(name, None, f"client-{name}", HOST, ("a",), (), partitions(given))
        for name, given in assigned.items()
    )
    return Generation(generation, at_ms, "consumer", protocol, None, members)


def flapping(start_ms: int, times: int, apart_ms: int) -> list[Any]:
    """Return a group of two members in which a third one, x, joins and leaves again and again."""
    stay = member_of("one"), member_of("two")
    facts = [joined(start_ms - 1_209_000, name) for name in ("one", "two")]
    facts += [
        began(start_ms - 1_209_000, "join", "one", 0, state="Empty"),
        completed(
            start_ms - 1_208_000, 1, start_ms - 1_209_000, member_of("one"), member_of("two")
        ),
    ]
    for number in range(times):
        at_ms = start_ms + 2 * number * apart_ms
        left_ms = at_ms + apart_ms
        generation = 2 * number + 2
        changes = [
            joined(at_ms, f"x-{number}"),
            began(at_ms, "join", f"x-{number}", generation - 1),
            removed(left_ms, f"x-{number}", "leave"),
            began(left_ms, "leave", f"x-{number}", generation),
        ]
        for fact in changes:
            fact.client_id = "client-x"
        facts += [
            *changes[:2],
            completed(at_ms + 100, generation, at_ms, *stay, member_of(f"x-{number}")),
            *changes[2:],
            completed(left_ms + 100, generation + 1, left_ms, *stay),
        ]
    return facts
