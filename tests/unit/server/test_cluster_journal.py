"""The journal of several brokers: each fact says who coordinated, in the order of what happened.

Rules: [journal/node].
"""

from itertools import pairwise

from coterie.cli.groups.journal_events import JournalEvents
from coterie.coordinator.kernel.event import Event
from coterie.pipeline.findings.of_journal import journal_findings
from coterie.protocol.messages.journal_records import (
    Fact,
    GroupExpired,
    UnknownFact,
    decode_fact,
    encode_fact,
)
from coterie.protocol.messages.partition_facts import PartitionLoaded, PartitionUnloaded, is_move
from coterie.protocol.topic_names import JOURNAL_TOPIC
from coterie.server.broker import Broker
from coterie.testing.records import partition_records
from tests.unit.server.cluster import ManualCluster
from tests.unit.server.cluster_requests import commit, coordinator, create
from tests.unit.server.manual import Client, make_broker


def facts_in(broker: Broker) -> list[Fact]:
    """Return the facts in the journal, in order."""
    broker.journal.write()
    while not broker.journal.idle:
        broker.loop.turn()  # type: ignore[attr-defined]
    found = [
        decode_fact(record.key, record.value).fact
        for partition in broker.topics.by_name[JOURNAL_TOPIC].partitions
        if partition.opened_log is not None
        for record in partition_records(partition.opened_log)
    ]
    return [each for each in found if not isinstance(each, UnknownFact)]


def moves_of(facts: list[Fact]) -> list[tuple[str, int]]:
    kinds = {PartitionLoaded: "loaded", PartitionUnloaded: "unloaded"}
    return [(kinds[type(each)], each.node_id) for each in facts if type(each) in kinds]


def test_facts_say_which_broker_coordinated_in_the_order_of_moves() -> None:
    cluster = ManualCluster()
    brokers = cluster.cluster.brokers
    create(cluster.client(1))
    here = coordinator(cluster)
    assert commit(cluster.client(here), 5) == [0]
    path = [here]
    index = brokers[here].coordinator.partition_for("g")
    for _ in range(3):
        to = path[-1] % 3 + 1
        cluster.cluster.move("__consumer_offsets", index, to)
        cluster.loop.advance(60)
        path.append(to)
    facts = facts_in(brokers[1])
    expected = [
        each
        for before, after in pairwise(path)
        for each in (("unloaded", before), ("loaded", after))
    ]
    assert moves_of(facts) == expected
    events = JournalEvents()
    shown = [events.event(each) for each in facts]
    moved = [each.details for each in shown if each.what == "coordinator moved"]
    assert moved == [
        f"from broker {before} to {after}; generation stayed" for before, after in pairwise(path)
    ]
    assert f"broker {here} stopped or is no longer" in shown[0].details


def test_facts_of_a_killed_broker_come_before_those_of_its_successor() -> None:
    cluster = ManualCluster()
    create(cluster.client(1))
    here = coordinator(cluster)
    assert commit(cluster.client(here), 5) == [0]
    cluster.cluster.kill(here)
    cluster.loop.advance(60)
    after = coordinator(cluster)
    assert moves_of(facts_in(cluster.cluster.brokers[after])) == [
        ("unloaded", here),
        ("loaded", after),
    ]


def test_single_broker_writes_the_bytes_that_it_wrote_before() -> None:
    fact = GroupExpired(at_ms=1, generation_id=2)
    _, value = encode_fact("g", fact)
    assert value.hex() == "000000000000000000010000000200"
    client = Client(make_broker())
    client.broker.journal.add([Event("g", fact)])
    assert [each.node_id for each in facts_in(client.broker)] == [-1]
    assert fact.node_id == -1


def test_load_elsewhere_is_a_move_and_no_outage() -> None:
    def load(node_id: int) -> PartitionLoaded:
        return PartitionLoaded(at_ms=1, partition=0, group_count=1, node_id=node_id)

    assert is_move(1, load(2))
    assert not is_move(2, load(2)), "it has restarted"
    assert not is_move(-1, load(2)), "nobody knows who was there before"
    assert not is_move(-1, load(-1)), "a single broker has restarted"
    assert not is_move(1, load(-1)), "the directory has one broker now"
    assert journal_findings({"g": [load(1), load(2)]}, 10) == {"g": []}
