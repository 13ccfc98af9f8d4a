"""Members of several libraries in one group: join, leave, crash. Scenarios S174, S175."""

from collections.abc import Callable

from tests.live import libraries
from tests.live.broker_process import Broker
from tests.live.deadlines import eventually
from tests.live.groups import GroupView, produce_rows, producing
from tests.live.members import Members, summaries, wait_all_read, wait_assigned
from tests.live.test_history import History

PARTITIONS = 6


def others(library: libraries.Library) -> list[str]:
    """Return the names of the other libraries."""
    return [name for name in libraries.NAMES if name != library.name]


def test_mixed_consumers_join(
    broker: Broker, make_topic: Callable[..., str], members: Members
) -> None:
    """S174: three members of three libraries read a topic with the range assignor.

    Each partition has one owner, each record is read once and by its owner, the coordinator
    describes the same assignment, and in the end everything is committed.
    """
    topic = make_topic(partitions=PARTITIONS)
    group = GroupView(broker.bootstrap, topic)
    three = [members.start(each, group=topic, topic=topic) for each in libraries.NAMES]
    owned = wait_assigned(three, topic, PARTITIONS)
    assert [len(each) for each in owned] == [2, 2, 2]

    stored = produce_rows(broker.bootstrap, topic, PARTITIONS, 600)
    counts = wait_all_read(three, stored)
    assert set(counts.values()) == {1}
    for member, partitions in zip(three, owned, strict=True):
        assert {(name, partition) for name, partition, _ in member.records()} == partitions

    group.wait_state("STABLE", members=3)
    assert group.describe().partition_assignor == "range"
    assert group.owned() == {member.member_id: member.partitions for member in three}
    for member in three:
        assert member.leave() == 0
    group.wait_state("EMPTY", members=0)
    assert group.offsets() == {(topic, partition): 100 for partition in range(PARTITIONS)}


def test_join_and_leave_under_load(
    broker: Broker,
    make_topic: Callable[..., str],
    members: Members,
    library: libraries.Library,
) -> None:
    """S175: a member joins and leaves while records are written; each record is read once.

    No member crashes, and all commit before they give partitions up, so no record is read twice.
    """
    topic = make_topic(partitions=PARTITIONS)
    with producing(broker.bootstrap, topic, PARTITIONS) as producer:
        stay = [members.start(each, group=topic, topic=topic) for each in others(library)]
        wait_assigned(stay, topic, PARTITIONS)
        guest = members.start(library.name, group=topic, topic=topic)
        wait_assigned([*stay, guest], topic, PARTITIONS)
        guest.wait_for("delivered")
        assert guest.leave() == 0
        wait_assigned(stay, topic, PARTITIONS)
        stored = producer.stop()
    everybody = [*stay, guest]
    counts = wait_all_read(everybody, stored)
    twice = sorted(record for record, times in counts.items() if times > 1)
    assert not twice, f"{twice[:5]}\n{summaries(everybody)}"


def test_consumer_rejoin(
    broker: Broker,
    make_topic: Callable[..., str],
    members: Members,
    library: libraries.Library,
) -> None:
    """S174: a member that left rejoins with a new member id and continues at its offsets."""
    topic = make_topic(partitions=2)
    first_half = produce_rows(broker.bootstrap, topic, 2, 100)
    first = members.start(library.name, group=topic, topic=topic)
    wait_all_read([first], first_half)
    assert first.leave() == 0
    second_half = produce_rows(broker.bootstrap, topic, 2, 100)
    again = members.start(library.name, group=topic, topic=topic)
    counts = wait_all_read([again], second_half)
    assert set(counts) == second_half
    assert again.member_id != first.member_id
    assert again.generation > first.generation


def test_consumer_is_removed_when_timed_out(
    broker: Broker,
    make_topic: Callable[..., str],
    members: Members,
    library: libraries.Library,
) -> None:
    """S174: the others take over from a killed member after its session timeout, not before.

    Every record is read at least once, including those that the killed member had read but not
    committed.
    """
    topic = make_topic(partitions=PARTITIONS)
    with producing(broker.bootstrap, topic, PARTITIONS) as producer:
        # Only the victim has a short session: on a busy machine the survivors might lose theirs.
        victim = members.start(
            library.name, group=topic, topic=topic, session_timeout_ms=broker.short_session_ms
        )
        survivors = [members.start(each, group=topic, topic=topic) for each in others(library)]
        wait_assigned([victim, *survivors], topic, PARTITIONS)
        victim.wait_for("committed")
        generation = survivors[0].generation
        victim.kill()
        wait_assigned(survivors, topic, PARTITIONS)
        stored = producer.stop()
    if broker.own:
        # A busy machine delays heartbeats, so only the journal says when the last one came.
        history = History(broker.bootstrap, topic)
        removed = history.wait_for("member_removed", member_id=victim.member_id)
        assert removed["cause"] == "session expiry"
        assert removed["at_ms"] - removed["last_heard_ms"] >= broker.short_session_ms
    assert min(member.generation for member in survivors) > generation
    wait_all_read([victim, *survivors], stored)
    assert victim.member_id not in GroupView(broker.bootstrap, topic).member_ids()


def test_killed_only_member_leaves_an_empty_group(
    broker: Broker, make_topic: Callable[..., str], members: Members
) -> None:
    """A group whose only member was killed becomes Empty and keeps its committed offsets."""
    topic = make_topic()
    stored = produce_rows(broker.bootstrap, topic, 1, 50)
    victim = members.start(
        "confluent", group=topic, topic=topic, session_timeout_ms=broker.short_session_ms
    )
    wait_all_read([victim], stored)
    victim.wait_for("committed", offsets=[[topic, 0, 50]])
    victim.kill()
    group = GroupView(broker.bootstrap, topic)
    group.wait_state("EMPTY", members=0)
    assert group.offsets() == {(topic, 0): 50}


def test_member_without_a_common_assignor_is_refused(
    broker: Broker, make_topic: Callable[..., str], members: Members
) -> None:
    """A client without a common assignor gets INCONSISTENT_GROUP_PROTOCOL.

    The group is not affected.
    """
    topic = make_topic(partitions=2)
    member = members.start("aiokafka", group=topic, topic=topic)
    wait_assigned([member], topic, 2)
    generation = member.generation
    stranger = members.start("confluent", group=topic, topic=topic, assignor="roundrobin")
    stranger.wait_for("error", code="INCONSISTENT_GROUP_PROTOCOL")
    assert GroupView(broker.bootstrap, topic).member_ids() == {member.member_id}
    stored = produce_rows(broker.bootstrap, topic, 2, 20)
    wait_all_read([member], stored)
    assert member.generation == generation


def test_more_members_than_partitions(
    broker: Broker, make_topic: Callable[..., str], members: Members
) -> None:
    """One of three members has none of two partitions, until an owner leaves."""
    topic = make_topic(partitions=2)
    group = GroupView(broker.bootstrap, topic)
    three = [members.start(each, group=topic, topic=topic) for each in libraries.NAMES]

    def settled() -> bool:
        # While the group rebalances, the coordinator describes members without assignments.
        owned = {member.member_id: member.partitions for member in three}
        numbers = sorted(len(partitions) for partitions in owned.values())
        return numbers == [0, 1, 1] and group.owned() == owned

    eventually(
        settled,
        "three members with the assignments that the coordinator describes",
        evidence=lambda: (group.owned(), summaries(three)),
    )
    leaver = next(member for member in three if member.partitions)
    assert leaver.leave() == 0
    wait_assigned([member for member in three if member is not leaver], topic, 2)
