"""One conversation with both brokers: its parts, and the comparison of answers and records."""

import time
from collections import Counter
from concurrent.futures import Executor
from functools import partial
from itertools import count
from typing import Any

from coterie.protocol.java_hash import partition_for
from coterie.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsRequestTopic
from coterie.protocol.messages.list_groups import ListGroupsRequest
from coterie.protocol.messages.share_fetch import ShareFetchRequest
from coterie.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.compared.group_conversations import give_topic_ids, records
from tests.compared.share_groups.conversation import Conversation
from tests.compared.share_groups.exchange import Answer, all_answers
from tests.compared.share_groups.known import (
    Reason,
    changes_nothing,
    drop_cut_batches,
    is_split_text,
    reason_of,
    without_repetitions,
)
from tests.compared.share_groups.parts import Asked, Closing, Pause
from tests.compared.share_groups.settling import settle
from tests.compared.share_groups.stored import states
from tests.compared.transactions.__main__ import differences
from tests.compared.transactions.side import Side
from tests.compared.transactions.stored import INTERNAL_PARTITIONS
from tests.unit.server.running import RunningBroker

_PAUSE_S = 0.05
_RUN = 200


class Comparison:
    """One conversation with both brokers.

    Attributes:
        requests, found: how many requests there were, and how many answers and logs differed.
        known: how often something differed as docs/spec describes it, by reason.
        ended_by: the reason for which answers could not be compared any more; None for none.
        report: what is to be printed of differences.
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
            verbose: whether what was said before a difference is reported.
            at_once: lets both brokers do a part at the same time.
        """
        self._conversation = conversation
        self._sides = sides
        self._broker = broker
        self._verbose = verbose
        self._history: list[str] = []
        self._at_once = at_once
        self.requests = self.found = 0
        self.known: Counter[Reason] = Counter()
        self.ended_by: Reason | None = None
        self.report: list[str] = []

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
            kafkas, ours = self._at_once.map(partial(all_answers, part), self._sides)
            if isinstance(part, Asked) and part.settles is not None:
                settle(self._sides, part.settles)
            if isinstance(part, Closing):
                self._history.append(repr(part))
            for kafka, our in zip(kafkas, ours, strict=True):
                self._compare(kafka, our)
            if self.found:
                return
            if self.ended_by is not None:
                break
        self._compare_logs()

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
        if isinstance(kafka.request, ShareFetchRequest) and kafka.raw is not None:
            self.known[Reason.CUT_BATCH] += drop_cut_batches(kafka.value)
        self._history.append(f"{text}\n        {kafka.value}")
        different = list(differences(kafka.value, our.value))
        if different and all(map(is_split_text, different)):
            self.known[Reason.SPLIT_TEXT] += 1
            different = []
        reason = reason_of(self._conversation, kafka, our) if different else None
        if reason is not None:
            self.known[reason] += 1
            if not changes_nothing(reason, kafka.request):
                # What follows may differ, too.
                self.ended_by = reason
        elif different:
            self.found += 1
            if self._verbose:
                self.report += self._history[-_RUN:]
            self.report.append(f"{self._conversation.name} {text}")
            self.report += [f"    {line}" for line in different[:8]]
            self.report.append(f"    after {kafka.seconds:.2f} and {our.seconds:.2f} s")
        if kafka.raw is not None:
            self._conversation.learn(kafka.asked, kafka.request, kafka.raw)

    # -- logs --------------------------------------------------------------------------------------

    def _compare_logs(self) -> None:
        """Compare the records of groups, and the states of share partitions.

        What differs because an answer did is left out.
        """
        if self.ended_by is Reason.SAME_BUCKET:
            return
        for group in self._conversation.groups:
            kafka, ours = (list(records(side, group)) for side in self._sides)  # type: ignore[arg-type]
            self._compare_stored(
                f"records of {group}", list(without_repetitions(kafka, self.known)), ours
            )
        if self.ended_by is not None:
            return
        both = [list(states(side, self._conversation)) for side in self._sides]
        for (name, kafka_states), (_, our_states) in zip(*both, strict=True):
            self._compare_stored(name, kafka_states, our_states)

    def _compare_stored(self, name: str, kafka: list[Any], ours: list[Any]) -> None:
        if kafka == ours:
            return
        self.found += 1
        pairs = zip(kafka, ours, strict=False)
        ends = min(len(kafka), len(ours))
        at = next((i for i, (one, other) in enumerate(pairs) if one != other), ends)
        if self._verbose:
            self.report += self._history
        self.report.append(f"{name}: record {at} differs")
        for broker, found in (("Kafka", kafka), ("Coterie", ours)):
            self.report += [f"    {broker:8}{each}" for each in found[max(0, at - 2) : at + 3]]


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
        time.sleep(_PAUSE_S)
    for group in conversation.groups:
        _wait_for_coordinator(sides[0], group, list(numbers))
    conversation.learn_topics()


def _wait_for_coordinator(side: Side, group: str, topics: list[str]) -> None:
    """Wait until the coordinator of a group knows topics, with another group that it has.

    It learns of them at a time of its own. A heartbeat before that initialises nothing.
    """
    number = partition_for(group, INTERNAL_PARTITIONS)
    names = (f"probe-{each}-{group}" for each in count())
    other = next(each for each in names if partition_for(each, INTERNAL_PARTITIONS) == number)
    joining, leaving = (
        ShareGroupHeartbeatRequest(
            group_id=other, member_id="probe", member_epoch=epoch, subscribed_topic_names=topics
        )
        for epoch in (0, -1)
    )
    while len(side.call(joining, 1).assignment.topic_partitions) < len(topics):
        time.sleep(_PAUSE_S)
    side.call(leaving, 1)
