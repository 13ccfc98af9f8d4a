"""What must hold when nothing has gone wrong for some time, and at the end of a run.

K3   acknowledged records are in the log at their offsets, once; readers have what the log has
K9   each partition has a live leader, all images agree, all groups are at rest
K11  the next coordinator makes of the log what the present one has in memory
"""

from collections import Counter
from typing import TYPE_CHECKING, Any

from coterie.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from coterie.protocol.messages.describe_groups import DescribeGroupsRequest
from coterie.protocol.messages.describe_transactions import DescribeTransactionsRequest
from coterie.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from coterie.protocol.records import decode_records, iterate_batches
from coterie.protocol.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from coterie.server.cluster.image import CoordinatorType
from tests.simulation.brokers.clients import Ask, Steps
from tests.simulation.brokers.offsets import group_of
from tests.simulation.brokers.records import TOPIC, RoutedReader
from tests.simulation.checks.violation import require
from tests.simulation.transactions.producers import TIMEOUT_MS
from tests.simulation.transactions.producers import TOPIC as TRANSACTIONAL
from tests.simulation.transactions.world import check_outcomes

if TYPE_CHECKING:
    from tests.simulation.brokers.world import World

# How long readers have to come to the end of what was written, and a coordinator to load.
_READ_MS, _LOAD_MS = 6_000, 1_500
_DESCRIBE_VERSION, _CONSUMER_VERSION, _FETCH_VERSION, _TRANSACTIONS_VERSION = 5, 1, 8, 0


def check_rest(world: "World") -> None:
    """Check the end of a calm (K4, K9).

    Raises:
        Violation: something does not hold.
    """
    leadership, brokers = world.cluster.leadership, world.cluster.brokers
    image = leadership.image
    require(list(image.live_ids) == world.node_ids, "K9", f"only {image.live_ids} are live")
    for node_id, broker in brokers.items():
        same = broker.image is image
        require(same, "K9", f"{node_id} has image {broker.image.version}, not {image.version}")
        world.checks.check_topics_left_nothing(broker)
    for topic, placed in image.placements.items():
        for index, where in enumerate(placed):
            is_led = where.leader_id in brokers and sorted(where.isr) == sorted(where.replicas)
            require(is_led, "K9", f"{topic}-{index} is {where}")
    for topic, kind in ((OFFSETS_TOPIC, "groups"), (TRANSACTIONS_TOPIC, "transaction_runtime")):
        led: dict[int, set[int]] = {each: set() for each in brokers}
        for index, where in enumerate(image.placements[topic]):
            led[where.leader_id].add(index)
        for node_id, broker in brokers.items():
            runtime = getattr(broker, kind)
            owned = {each.partition for each in runtime.owned()}
            text = f"{node_id} owns {owned} of {topic} and not {led[node_id]}"
            require(owned == led[node_id], "K9", text)
            loading = runtime.loading_partitions()
            require(not loading, "K9", f"{node_id} is loading {loading} of {topic}")
    for group in world.groups:
        require(group.rests, "K9", f"{group.group_id} does not rest: {group.settled}")
    world.ledger.check_registers()


def check_end(world: "World") -> None:
    """End all clients, and check what is left (K3, K11).

    Raises:
        Violation: something does not hold.
    """
    reading = [each for each in world.clients if each.name.startswith(("follower", "committed"))]
    for client in world.clients:
        if client not in reading:
            client.end()
    again = RoutedReader()
    # The transactions that are open end at their timeouts.
    world.run_for(TIMEOUT_MS * 3)
    world.join("committed again", again.routed_steps(world))
    world.run_for(_READ_MS)
    for client in world.clients:
        client.end()
    _check_sessions(world)
    _check_records(world)
    _check_transactions(world, again)
    _check_replay(world)


def _check_sessions(world: "World") -> None:
    """The sessions of all restless members are over by now, wherever they have begun (K10)."""
    for group in world.groups:
        coordinator = world.cluster.leadership.coordinator(CoordinatorType.GROUP, group.group_id)
        assert coordinator is not None, "each group has a coordinator at rest"
        found = coordinator.groups.coordinator.group(group.group_id)
        is_over = group.steady or found is None or found.is_empty
        require(is_over, "K10", f"{found} has members, and nobody lives")


def _check_records(world: "World") -> None:
    found: dict[tuple[int, int], bytes | None] = {}
    for partition in world.cluster.shared.topics.by_name[TOPIC].partitions:
        for data in partition.log.chunks():
            for position, header in iterate_batches(data):
                for each in decode_records(data, header, position):
                    found[partition.index, each.offset] = each.value
    require(found == world.checks.values, "K3", "the log is not what was appended to it")
    twice = [value for value, times in Counter(found.values()).items() if times > 1]
    require(not twice, "K3", f"{twice} are in the log twice")
    for at, value in world.ledger.records.items():
        require(found.get(at) == value, "K3", f"{value!r} is not at {at}: {found.get(at)!r}")
    for index, follower in enumerate(world.followers):
        there = {at: value for (each, at), value in found.items() if each == index}
        differ = sorted(at for at in there.keys() | follower.values if
                        there.get(at) != follower.values.get(at))  # fmt: skip
        require(not differ, "K3", f"a reader of {TOPIC}-{index} has other records at {differ}")


def _check_transactions(world: "World", again: RoutedReader) -> None:
    for partition in world.cluster.shared.topics.by_name[TRANSACTIONAL].partitions:
        log = partition.log
        is_stable = log.last_stable_offset == log.log_end_offset
        require(is_stable, "K9", f"a transaction is open for ever in {partition}")
    values = [value for each in world.reader.values for value in each]
    twice = [value for value, times in Counter(values).items() if times > 1]
    require(not twice, "K3", f"{twice} are read twice")
    same = again.values == world.reader.values
    require(same, "K3", f"a new reader reads {again.values} and not {world.reader.values}")
    check_outcomes(world.producers, set(values))


# --- K11 ------------------------------------------------------------------------------------------


class _Described:
    """What coordinators say of their groups and transactions.

    Attributes:
        answers: by what was asked.
    """

    def __init__(self, group_ids: list[str], transactional_ids: tuple[str, ...]) -> None:
        self.answers: dict[str, Any] = {}
        self._requests: dict[str, Ask] = {}
        for each in group_ids:
            asked = OffsetFetchRequestGroup(group_id=each, topics=None)
            self._requests[f"offsets of {each}"] = Ask(
                OffsetFetchRequest(groups=[asked]), _FETCH_VERSION
            )
            if each in map(group_of, transactional_ids):
                # If its transactions were aborted it is in memory only, as in Kafka.
                continue
            self._requests[f"members of {each}"] = Ask(
                DescribeGroupsRequest(groups=[each]), _DESCRIBE_VERSION
            )
            self._requests[f"consumers of {each}"] = Ask(
                ConsumerGroupDescribeRequest(group_ids=[each]), _CONSUMER_VERSION
            )
        for each in transactional_ids:
            asked_id = DescribeTransactionsRequest(transactional_ids=[each])
            self._requests[f"transaction of {each}"] = Ask(asked_id, _TRANSACTIONS_VERSION)

    def steps(self) -> Steps:
        """Ask for everything."""
        for name, ask in self._requests.items():
            answer = yield ask
            require(answer is not None, "K8", f"{name}: there is no answer")
            self.answers[name] = answer
        while True:
            yield 1_000


def _described(world: "World") -> dict[str, Any]:
    ids = [*(each.group_id for each in world.groups), "register"]
    ids += map(group_of, world.transactional_ids)
    described = _Described(ids, world.transactional_ids)
    world.join("administrator", described.steps())
    world.run_for(_LOAD_MS)
    return described.answers


def _check_replay(world: "World") -> None:
    """Let other brokers load every partition of a coordinator, and compare what they say."""
    before = _described(world)
    cluster = world.cluster
    for topic in (OFFSETS_TOPIC, TRANSACTIONS_TOPIC):
        for index, where in enumerate(cluster.leadership.image.placements[topic]):
            others = [each for each in where.isr if each != where.leader_id]
            cluster.move(topic, index, world.chance.choice(others))
    world.run_for(_LOAD_MS)
    after = _described(world)
    for name, answer in before.items():
        text = f"{name}: {answer} before a move, {after.get(name)} after it"
        require(after.get(name) == answer, "K11", text)
    require(len(before) == len(after), "K11", "not everything was answered")
