"""Compare conversations with share groups with the Kafka that the first argument names."""

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Lock

from coterie.address import Address
from coterie.protocol.messages.find_coordinator import FindCoordinatorRequest
from coterie.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.compared.share_groups.comparison import Comparison, prepare
from tests.compared.share_groups.conversation import Conversation
from tests.compared.share_groups.known import Reason
from tests.compared.share_groups.parts import MEMBER_CONNECTIONS
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
_PAUSE_S = 0.1


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
    parser.add_argument("--at-once", type=int, default=1, help="conversations, a broker each")
    options = parser.parse_args()
    run = f"{time.time_ns() // 1_000_000 % 100_000_000:x}"
    seeds = iter(range(options.seed, options.seed + options.conversations))
    total = _Total()
    with ThreadPoolExecutor(options.at_once) as workers:
        works = [
            workers.submit(_converse, options, f"{run}-{number}", seeds, total)
            for number in range(options.at_once)
        ]
    for each in works:
        each.result()
    for line in total.lines():
        print(line)
    return 1 if total.found else 0


class _Total:
    """What all conversations of a run have shown; several threads add to it."""

    def __init__(self) -> None:
        self.requests = self.found = self.conversations = 0
        self._known: Counter[Reason] = Counter()
        self._ended: Counter[Reason] = Counter()
        self._lock = Lock()

    def add(self, seed: int, comparison: Comparison) -> None:
        """Add one conversation, and print what it has found."""
        ended = comparison.ended_by
        why = f", ended: {ended.name}" if ended is not None else ""
        line = f"seed {seed}: {comparison.requests} requests, {comparison.found} differ{why}"
        with self._lock:
            self.requests += comparison.requests
            self.found += comparison.found
            self.conversations += 1
            self._known += comparison.known
            if ended is not None:
                self._ended[ended] += 1
            print("\n".join([*comparison.report, line]), flush=True)

    def lines(self) -> Iterator[str]:
        """Yield the sums."""
        for reason in Reason:
            ends = f", ended {self._ended[reason]} conversations" if self._ended[reason] else ""
            yield f"known {self._known[reason]:6}{ends}: {reason.value}"
        yield (
            f"{self.requests} requests of {self.conversations} conversations,"
            f" {self.found} answers differ"
        )


def _converse(options: argparse.Namespace, run: str, seeds: Iterator[int], total: _Total) -> None:
    """Have conversations, one after the other, with a broker of ours."""
    with (
        RunningBroker(SETTINGS) as broker,
        connected(options.kafka, broker.address, more=len(MEMBER_CONNECTIONS)) as sides,
        ThreadPoolExecutor(len(sides)) as at_once,
    ):
        _make_state_topic(sides, run)
        for seed in seeds:
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
            total.add(seed, comparison)


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
            time.sleep(_PAUSE_S)
        side.create_topics({topic: 1})
        while not side.call(joining, 1).assignment.topic_partitions:
            time.sleep(_PAUSE_S)


if __name__ == "__main__":
    sys.exit(main())
