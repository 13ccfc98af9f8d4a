"""Compare conversations with share groups with the Kafka that the first argument names."""

import argparse
import random
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple

from coterie.address import Address
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsRequestTopic
from coterie.protocol.messages.find_coordinator import FindCoordinatorRequest
from coterie.protocol.messages.list_groups import ListGroupsRequest
from coterie.protocol.messages.share_acknowledge import ShareAcknowledgeRequest
from coterie.protocol.messages.share_fetch import ShareFetchRequest
from coterie.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.compared.group_conversations import give_topic_ids, records
from tests.compared.share_groups.conversation import Conversation
from tests.compared.share_groups.parts import (
    MEMBER_CONNECTIONS,
    Asked,
    Closing,
    Parked,
    Part,
    Pause,
)
from tests.compared.share_groups.readers import MORE_THAN_THERE_IS
from tests.compared.share_groups.settling import settle
from tests.compared.share_groups.stored import states
from tests.compared.transactions.__main__ import differences
from tests.compared.transactions.plain_values import plain
from tests.compared.transactions.side import Side, connected
from tests.unit.server.running import RunningBroker

SETTINGS = {
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "50",
    "group.share.assignment.interval.ms": "0",
    # Members and transactions live as long as a conversation, however long it takes.
    "group.share.max.session.timeout.ms": "3600000",
    "group.share.session.timeout.ms": "3600000",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.max.record.lock.duration.ms": "3600000",
    "share.coordinator.snapshot.update.records.per.snapshot": "5",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}
_PROPAGATION_S = 0.6
# Until a fetch surely waits, and until what a connection held is released.
_PARKED_S = 0.05
_CLOSED_S = 0.3
_RUN = 200
# How a record is refused whose batch is split, and how one whose batch is not.
_SPLIT_TEXTS = (
    ("Member is not the owner of offset", "Member is not the owner of batch record"),
    (
        "The offset cannot be acknowledged. The offset is not acquired.",
        "The batch cannot be acknowledged. The batch is not in the acquired state.",
    ),
)


class Answer(NamedTuple):
    """What a broker has answered.

    Attributes:
        request: the request as it was sent.
        raw: the answer; None if the connection was closed.
        value: the answer as plain values.
        seconds: how long it took.
    """

    asked: Asked
    request: Any
    raw: Any
    value: Any
    seconds: float


def answers(side: Side, part: Part) -> Iterator[Answer]:
    """Do a part of a conversation with one broker."""
    if isinstance(part, Asked):
        request = part.step.request(side)
        begun = time.monotonic()
        raw = side.call(request, part.step.version, part.connection)
        yield _answer(side, part, request, raw, begun)
        time.sleep(part.rest_s)
    elif isinstance(part, Closing):
        side.reconnect(part.connection)
        time.sleep(_CLOSED_S)
    elif isinstance(part, Parked):
        fetch = part.fetch
        request, version = fetch.step.request(side), fetch.step.version
        begun = time.monotonic()
        side.send(request, version, fetch.connection)
        time.sleep(_PARKED_S)
        yield from answers(side, part.meanwhile)
        raw = side.receive(request, version, fetch.connection)
        yield _answer(side, fetch, request, raw, begun)


def _all_answers(part: Part, side: Side) -> list[Answer]:
    return list(answers(side, part))


def _answer(side: Side, asked: Asked, request: Any, raw: Any, begun: float) -> Answer:
    seconds = time.monotonic() - begun
    asked.step.learn(side, raw)
    if asked.step.ends:
        side.settle(asked.step.ends)
    value: Any = "closed" if raw is None else plain(raw, side)
    if isinstance(request, ShareFetchRequest) and raw is not None:
        _drop_cut_batches(value)
    return Answer(asked, request, raw, value, seconds)


def _drop_cut_batches(value: dict[str, Any]) -> None:
    """Drop the beginnings of batches at the end of records: Kafka may send them."""
    for topic in value["responses"]:
        for part in topic["partitions"]:
            part["records"] = [each for each in part["records"] if "cut" not in each]


def _without_repetitions(stored: Iterator[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Leave out equal neighbours, and topics without partitions that are being initialised.

    Kafka writes some records twice [share-groups/delete-offsets], and keeps topics of which no
    partition existed when its offset was to be altered [share-groups/alter-offsets].
    """
    for each, _ in groupby(_without_empty_topics(value) for value in stored):
        yield each


def _without_empty_topics(stored: tuple[str, Any]) -> tuple[str, Any]:
    name, value = stored
    if value and "initializing_topics" in value:
        begun = [each for each in value["initializing_topics"] if each["partitions"]]
        return name, {**value, "initializing_topics": begun}
    return stored


def prepare(sides: list[Side], broker: RunningBroker, conversation: Conversation) -> None:
    """Create the topics with the same ids."""
    for side in sides:
        side.producer_names.clear()
    request = CreateTopicsRequest(
        topics=[
            CreateTopicsRequestTopic(name=name, num_partitions=count, replication_factor=1)
            for name, count in conversation.topics.items()
        ],
        timeout_ms=10_000,
    )
    create(sides, broker, conversation, request)


def create(
    sides: list[Side], broker: RunningBroker, conversation: Conversation, request: Any
) -> None:
    """Create topics that have the same ids in both brokers."""
    answer = sides[0].call(request, 7)
    give_topic_ids(broker, conversation, answer)
    sides[1].call(request, 7)
    for side in sides:
        for each in answer.topics:
            side.topic_names[each.topic_id] = each.name
    # Kafka learns of topics a little later than their creation is answered.
    numbers = {each.name: list(range(each.num_partitions)) for each in request.topics}
    while any(each.error_code for each in sides[0].list_offsets(numbers, -1)):
        time.sleep(_PARKED_S)
    time.sleep(_PROPAGATION_S)
    conversation.learn_topics()


def is_known(kafka: Answer) -> bool:
    """Return whether an answer of Kafka differs in a way that docs/spec describes.

    Kafka fails where an acknowledgement reaches over the start offset of a share partition with
    nothing in flight there [share-partitions/acknowledgement]. A fetch of which a partition has
    lost records does not wait [share-partitions/log-start]: those that are still being loaded are
    left out, and ours are loaded at once.
    """
    request = kafka.request
    if not isinstance(request, ShareFetchRequest | ShareAcknowledgeRequest) or kafka.raw is None:
        return False
    if kafka.raw.error_code == ErrorCode.UNKNOWN_SERVER_ERROR:
        return True
    if not isinstance(request, ShareFetchRequest) or request.min_bytes != MORE_THAN_THERE_IS:
        return False
    return not kafka.raw.error_code and kafka.seconds < request.max_wait_ms / 1000


def _as_offsets(text: str) -> bool:
    """Return whether a difference is a refusal of a batch that Kafka has split already.

    It splits the batch that is in flight before one of an aborted transaction that was read, even
    if that was not acquired [share-partitions/acknowledgement].
    """
    return any(text.endswith(f"Kafka {kafka!r}, Coterie {ours!r}") for kafka, ours in _SPLIT_TEXTS)


class Comparison:
    """One conversation with both brokers.

    Attributes:
        requests, found: how many requests there were, and how many answers differed.
        is_over: whether something has differed, so that nothing more is compared.
    """

    def __init__(
        self,
        conversation: Conversation,
        sides: list[Side],
        broker: RunningBroker,
        verbose: bool,
        at_once: Executor,
    ) -> None:
        """Begin.

        Args:
            conversation: what is said.
            sides: Kafka and Coterie.
            broker: ours.
            verbose: whether what was said before a difference is printed.
            at_once: lets both brokers do a part at the same time.
        """
        self._conversation = conversation
        self._sides = sides
        self._broker = broker
        self._verbose = verbose
        self._history: list[str] = []
        self._at_once = at_once
        self.requests = self.found = 0
        self.is_over = False

    def run(self) -> None:
        """Have the conversation; it ends with the first difference."""
        for part in self._conversation.parts():
            if isinstance(part, Pause):
                time.sleep(part.seconds)
                continue
            if isinstance(part, Asked):
                request = part.step.request(self._sides[0])
                if isinstance(request, CreateTopicsRequest):
                    create(self._sides, self._broker, self._conversation, request)
                    continue
            kafkas, ours = self._at_once.map(partial(_all_answers, part), self._sides)
            if isinstance(part, Asked) and part.settles is not None:
                settle(self._sides, part.settles)
            if isinstance(part, Closing):
                self._history.append(repr(part))
            for kafka, our in zip(kafkas, ours, strict=True):
                self._compare(kafka, our)
            if self.is_over:
                return
        for group in self._conversation.groups:
            both = [
                list(_without_repetitions(records(side, group)))  # type: ignore[arg-type]
                for side in self._sides
            ]
            self._compare_stored(f"records of {group}", *both)
        both = [list(states(side, self._conversation)) for side in self._sides]
        for (name, kafka_states), (_, our_states) in zip(*both, strict=True):
            self._compare_stored(name, kafka_states, our_states)

    def _compare(self, kafka: Answer, our: Answer) -> None:
        self.requests += 1
        text = f"{self.requests} on {kafka.asked.connection} {kafka.asked.step}"
        for each in (kafka, our):
            if isinstance(each.request, ListGroupsRequest):
                own = [
                    group
                    for group in each.value["groups"]
                    if group["group_id"].startswith(self._conversation.name)
                ]
                each.value["groups"] = own
        self._history.append(f"{text}\n        {kafka.value}")
        if kafka.raw is not None:
            self._conversation.learn(kafka.asked, kafka.request, kafka.raw)
        different = [each for each in differences(kafka.value, our.value) if not _as_offsets(each)]
        if different and is_known(kafka):
            # What follows differs, too.
            self.is_over = True
        elif different:
            self.found += 1
            self.is_over = True
            if self._verbose:
                print("\n".join(self._history[-_RUN:]))
            print(f"{self._conversation.name} {text}")
            print("".join(f"    {line}\n" for line in different[:8]), end="", flush=True)

    def _compare_stored(self, name: str, kafka: list[Any], ours: list[Any]) -> None:
        if kafka == ours:
            return
        self.found += 1
        pairs = zip(kafka, ours, strict=False)
        ends = min(len(kafka), len(ours))
        at = next((i for i, (one, other) in enumerate(pairs) if one != other), ends)
        print(f"{name}: record {at} differs")
        for broker, found in (("Kafka", kafka), ("Coterie", ours)):
            for each in found[max(0, at - 2) : at + 3]:
                print(f"    {broker:8}{each}", flush=True)
        if self._verbose:
            print("\n".join(self._history))


def main() -> int:
    """Compare; the exit code is 1 if anything differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.compared.share_groups")
    parser.add_argument("kafka", type=Address.parse)
    parser.add_argument("--seed", type=int, default=1, help="of the first conversation")
    parser.add_argument("--conversations", type=int, default=10)
    parser.add_argument("--steps", type=int, default=150, help="of each conversation")
    parser.add_argument("--topic-changes", type=float, default=0.0, help="share of parts")
    parser.add_argument("--writes", action="store_true", help="somebody else writes states, too")
    parser.add_argument("--verbose", action="store_true", help="print what was said before")
    options = parser.parse_args()
    run = f"{time.time_ns() // 1_000_000 % 100_000_000:x}"
    requests = found = 0
    with (
        RunningBroker(SETTINGS) as broker,
        connected(options.kafka, broker.address, more=len(MEMBER_CONNECTIONS)) as sides,
        ThreadPoolExecutor(len(sides)) as at_once,
    ):
        _make_state_topic(sides, run)
        for seed in range(options.seed, options.seed + options.conversations):
            conversation = Conversation(
                f"{run}-{seed}",
                random.Random(str(seed)),
                options.steps,
                changes=options.topic_changes,
                writes=options.writes,
            )
            prepare(sides, broker, conversation)
            comparison = Comparison(conversation, sides, broker, options.verbose, at_once)
            comparison.run()
            requests, found = requests + comparison.requests, found + comparison.found
    print(f"{requests} requests, {found} answers differ")
    return 1 if found else 0


def _make_state_topic(sides: list[Side], run: str) -> None:
    """Have `__share_group_state` created, its coordinators ready, and a first group served.

    The first state that a Kafka initialises takes it much longer than any later one.
    """
    request = FindCoordinatorRequest(key_type=2, coordinator_keys=[f"g:{'A' * 21}B:0"])
    topic = f"{run}-first"
    joining = ShareGroupHeartbeatRequest(
        group_id=f"{run}-first", member_id="m0", member_epoch=0, subscribed_topic_names=[topic]
    )
    for side in sides:
        while side.call(request, 6).coordinators[0].error_code:
            time.sleep(0.1)
        side.create_topics({topic: 1})
        while not side.call(joining, 1).assignment.topic_partitions:
            time.sleep(_PROPAGATION_S)


if __name__ == "__main__":
    sys.exit(main())
