"""Compare conversations with consumer groups with the Kafka that the first argument names."""

import argparse
import random
import sys
import time

from coterie.address import Address
from tests.compared.consumer_groups.conversation import Conversation
from tests.compared.group_conversations import converse

SETTINGS = {
    "group.consumer.assignment.interval.ms": "0",
    "group.initial.rebalance.delay.ms": "0",
}


def main() -> int:
    """Compare; the exit code is 1 if anything differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.compared.consumer_groups")
    parser.add_argument("kafka", type=Address.parse)
    parser.add_argument("--seed", type=int, default=1, help="of the first conversation")
    parser.add_argument("--conversations", type=int, default=10)
    parser.add_argument("--steps", type=int, default=150, help="of each conversation")
    parser.add_argument("--regexes", type=float, default=0.0, help="share of joins with one")
    parser.add_argument("--topic-changes", type=float, default=0.0, help="share of requests")
    parser.add_argument("--verbose", action="store_true", help="print what was said before")
    parser.add_argument("--shown", type=int, default=3)
    options = parser.parse_args()
    run = f"{time.time_ns() // 1_000_000 % 100_000_000:x}"
    conversations = (
        Conversation(
            f"{run}-{seed}",
            random.Random(str(seed)),
            options.steps,
            regexes=options.regexes,
            topic_changes=options.topic_changes,
        )
        for seed in range(options.seed, options.seed + options.conversations)
    )
    found = converse(
        options.kafka, SETTINGS, conversations, verbose=options.verbose, shown=options.shown
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
