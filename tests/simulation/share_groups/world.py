"""One run of a seed: a cluster in virtual time, two share groups, and what goes wrong.

It is the world of `brokers` with other clients. Calms and storms follow each other; at the end the
members accept what is left.
"""

from itertools import count
from random import Random
from typing import Any

from coterie.protocol.messages.delete_records import (
    DeleteRecordsRequest,
    DeleteRecordsRequestPartition,
    DeleteRecordsRequestTopic,
)
from coterie.protocol.messages.incremental_alter_configs import (
    SET,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsRequestResource,
)
from coterie.protocol.records import decode_records, iterate_batches, read_marker
from coterie.protocol.topic_names import SHARE_GROUPS_TOPIC
from coterie.server.broker import Broker
from coterie.server.config.keys import GROUP_RESOURCE
from tests.simulation.brokers.clients import Ask, Client, Steps
from tests.simulation.brokers.faults import Faults
from tests.simulation.brokers.lines import Line
from tests.simulation.brokers.pairs import Led
from tests.simulation.brokers.records import TOPIC as RECORDS
from tests.simulation.brokers.world import SETTINGS, TOPICS, World
from tests.simulation.share_groups.checks import ShareChecks, check_load
from tests.simulation.share_groups.ledger import Place, ShareLedger
from tests.simulation.share_groups.members import ShareMember
from tests.simulation.transactions.producers import (
    PARTITIONS,
    TIMEOUT_MS,
    TransactionalProducer,
)
from tests.unit.server.produced import batch, produce_request
from tests.unit.server.turns import turn_limit

ROUNDS = 2
MEMBERS = 3
STORM_MS = 5_000
CALM_MS = 3_000
# Until members have accepted what is left: retries of the leader are over, and locks have ended.
_DRAIN_MS = 12_000
_LIMIT, _LOCK_MS, _IN_FLIGHT = 3, 2_000, 100
# A write is tried for 15 s, and each time it may be late.
_PATIENCE_MS = 40_000
# A measure of a loaded machine.
_TURN_LIMIT_S = 60.0
_COMMITTED, _ALL = "committed", "all"


class ShareClient(Client):
    """A client that waits for what a leader persists."""

    patience_ms = _PATIENCE_MS


class ShareFaults(Faults):
    """What happens to brokers, of which some coordinate the states of share partitions."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        # A log that loses its end has acknowledged records that never were.
        self._happens[self._cut] = 0
        self._happens_to[self._move_share_states] = 5

    def _move_share_states(self, broker: Broker, led: Led | None) -> None:
        self._move(SHARE_GROUPS_TOPIC, broker, led)


class ShareWorld(World):
    """One run.

    Attributes:
        ledgers: the groups.
        shared_topics: the topics that they read.
        places: all partitions of them.
    """

    settings = SETTINGS | {
        "share.coordinator.state.topic.num.partitions": "2",
        "share.coordinator.state.topic.prune.interval.ms": "1500",
        "share.coordinator.cold.partition.snapshot.interval.ms": "1000",
        "share.coordinator.snapshot.update.records.per.snapshot": "5",
        "share.coordinator.write.timeout.ms": "400",
        "group.share.min.heartbeat.interval.ms": "300",
        "group.share.heartbeat.interval.ms": "500",
        "group.share.min.session.timeout.ms": "2000",
        "group.share.session.timeout.ms": "3000",
        "group.share.min.record.lock.duration.ms": "1000",
        "group.share.record.lock.duration.ms": str(_LOCK_MS),
        "group.share.delivery.count.limit": str(_LIMIT),
        "group.share.partition.max.record.locks": str(_IN_FLIGHT),
        "group.share.assignment.interval.ms": "0",
    }
    client_class = ShareClient

    def __init__(self, seed: int, *, traces: bool = False) -> None:
        """Start the brokers of a seed, and its clients."""
        self.shared_topics = TOPICS
        self.places: list[Place] = [(each, index) for each in TOPICS for index in range(PARTITIONS)]
        super().__init__(seed, traces=traces)

    def _make_faults(self) -> Faults:
        return ShareFaults(self)

    def _make_clients(self) -> None:
        self.clients: list[Client] = []
        self.groups = []
        self._names = {self.topic_id(each): each for each in TOPICS}
        self._is_ready: set[str] = set()
        self._produces = True
        self.share_checks = ShareChecks()
        self.ledgers = [
            ShareLedger(
                each,
                is_committed=each == _COMMITTED,
                limit=_LIMIT,
                lock_ms=_LOCK_MS,
                now_ms=lambda: self.now_ms,
                epoch=self._epoch,
            )
            for each in (_COMMITTED, _ALL)
        ]
        for ledger in self.ledgers:
            self.join(f"administrator-{ledger.group_id}", self._administrate(ledger))
            for number in range(MEMBERS):
                name = f"{ledger.group_id}-{number}"
                member = ShareMember(self, name, ledger)
                member.client = self.join(name, self._when_ready(ledger, member))
        self.join("producer", self._produce(RECORDS))
        self.join("deleter", self._delete())
        producers = [
            TransactionalProducer(each, name, Random(f"{self.seed} transactions {each}"))
            for each, name in enumerate(("a", "a", "b"))
        ]
        for number, producer in enumerate(producers):
            self.join(f"transactions-{number}", self._while_produced(producer.steps()))

    # --- what members know ------------------------------------------------------------------------

    def _epoch(self, place: Place) -> int:
        topic, index = place
        return self.cluster.leadership.image.placements[topic][index].leader_epoch

    def led_by(self, node_id: int) -> list[Place]:
        """Return the partitions that a broker leads."""
        placements = self.cluster.leadership.image.placements
        return [each for each in self.places if placements[each[0]][each[1]].leader_id == node_id]

    def topic_name(self, topic_id: bytes) -> str:
        """Return the name of a topic."""
        return self._names[topic_id]

    def line_of(self, client: Client, node_id: int) -> Line | None:
        """Return the connection over which a client sends its next request to a broker."""
        return client._line(node_id)

    # --- clients ----------------------------------------------------------------------------------

    def _when_ready(self, ledger: ShareLedger, member: ShareMember) -> Steps:
        """Be a member from the moment on at which the settings of the group are made."""
        while ledger.group_id not in self._is_ready:
            yield 20
        yield from member.steps()

    def _while_produced(self, steps: Any) -> Steps:
        answer = None
        while self._produces:
            answer = yield steps.send(answer)
        while True:
            yield 10_000

    def _administrate(self, ledger: ShareLedger) -> Steps:
        """Set where the group begins, then change its limits now and then."""
        isolation = "read_committed" if ledger.is_committed else "read_uncommitted"
        first = {"share.auto.offset.reset": "earliest", "share.isolation.level": isolation}
        while not (yield from self._alter(ledger, first)):
            yield None
        self._is_ready.add(ledger.group_id)
        chance = self.chance
        while True:
            yield chance.randint(200, 3_000)
            if self.is_calm:
                continue
            kind = chance.choice(("delivery.count.limit", "record.lock.duration.ms", "max"))
            if kind == "max":
                value = chance.choice((100, 110, 400))
                yield from self._alter(ledger, {"share.partition.max.record.locks": str(value)})
                continue
            is_limit = kind == "delivery.count.limit"
            setting = ledger.limit if is_limit else ledger.lock_ms
            value = chance.choice((2, 3, 5) if is_limit else (1_000, 1_500, 3_000))
            setting.asked(value, self.now_ms)
            if (yield from self._alter(ledger, {f"share.{kind}": str(value)})):
                setting.made(self.now_ms)

    def _alter(self, ledger: ShareLedger, values: dict[str, str]) -> Steps:
        """Set settings of a group; return whether that was answered."""
        configs = [
            IncrementalAlterConfigsRequestConfig(name=each, config_operation=SET, value=value)
            for each, value in values.items()
        ]
        resource = IncrementalAlterConfigsRequestResource(
            resource_type=GROUP_RESOURCE, resource_name=ledger.group_id, configs=configs
        )
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
        answer = yield Ask(request, 1)
        if answer is not None:
            assert not answer.responses[0].error_code, answer
        return answer is not None

    def _produce(self, topic: str) -> Steps:
        """Write batches of some records; nobody asks whether they were written."""
        values = count()
        while True:
            yield self.chance.choice((0, 20, 100, 400))
            if not self._produces:
                continue
            records = [b"%d" % next(values) for _ in range(self.chance.choice((1, 2, 5, 30)))]
            index = self.chance.randrange(PARTITIONS)
            yield Ask(produce_request(batch(*records), topic, index), 9)

    def _delete(self) -> Steps:
        """Delete records from the front of a log now and then."""
        while True:
            yield self.chance.randint(500, 4_000)
            if self.is_calm:
                continue
            place = self.chance.choice(self.places)
            topic, index = place
            log = self.cluster.shared.topics.by_name[topic].partitions[index].opened_log
            node_id = self.cluster.leadership.image.placements[topic][index].leader_id
            if log is None or node_id not in self.node_ids:
                continue
            offset = self.chance.randint(log.log_start_offset, log.log_end_offset)
            asked = DeleteRecordsRequestPartition(partition_index=index, offset=offset)
            topics = [DeleteRecordsRequestTopic(name=topic, partitions=[asked])]
            for ledger in self.ledgers:
                ledger.deleted(place, offset)
            yield Ask(DeleteRecordsRequest(topics=topics, timeout_ms=500), 2, node_id=node_id)
            self.coverage["records deleted"] += 1

    # --- the run ----------------------------------------------------------------------------------

    def run(self, rounds: int = ROUNDS) -> None:
        """Run calms and storms.

        Raises:
            Violation: something does not hold. Exceptions of the product are passed on.
        """
        with turn_limit(_TURN_LIMIT_S):
            self.run_for(CALM_MS)
            for _ in range(rounds):
                self.is_calm = False
                self.faults.begin()
                self.run_for(STORM_MS)
                self.faults.end()
                self.is_calm = True
                self.run_for(CALM_MS)
                self.share_checks.check_replay(self.cluster)
            self._end()

    def checked(self) -> None:
        """See the base class; leaders and share coordinators are checked, too."""
        super().checked()
        self.share_checks.run(self.cluster)

    def _end(self) -> None:
        """Let members accept what is left, and check what has become of each record."""
        self._produces = False
        self.run_for(TIMEOUT_MS * 2 + _DRAIN_MS)
        for client in self.clients:
            client.end()
        self.run_for(1_000)
        self.share_checks.check_replay(self.cluster)
        check_load(self.cluster)
        for place in self.places:
            topic, index = place
            log = self.cluster.shared.topics.by_name[topic].partitions[index].log
            offsets, aborted = records_of(log)
            for ledger in self.ledgers:
                ledger.check_end(place, offsets, aborted)
        for ledger in self.ledgers:
            self.coverage += ledger.counted


def records_of(log: Any) -> tuple[set[int], set[int]]:
    """Return the offsets of all records of a log but markers, and those that were aborted."""
    offsets: set[int] = set()
    aborted: set[int] = set()
    open_: dict[int, set[int]] = {}
    for data in log.chunks(log.log_start_offset):
        for position, header in iterate_batches(data):
            records = decode_records(data, header, position)
            if header.is_control:
                marker = read_marker(records[0])
                ended = open_.pop(header.producer_id, set())
                if marker is not None and not marker.commit:
                    aborted |= ended
                continue
            found = {each.offset for each in records}
            offsets |= found
            if header.is_transactional:
                open_.setdefault(header.producer_id, set()).update(found)
    return offsets, aborted


def run_world(seed: int) -> None:
    """Run the world of a seed."""
    ShareWorld(seed).run()
