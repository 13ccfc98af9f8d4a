"""The command line of a member; see the package for what it does."""

import argparse
import importlib
import os
import sys

from tests.live.member.events import ASSIGNOR_CLASSES, Events, Orders

# Only the chosen library is imported: with an old one on PYTHONPATH the others may not work.
MODULES = {"kafka-python": "kafka_python", "aiokafka": "aiokafka_member", "confluent": "confluent"}


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.live.member", description=__doc__)
    parser.add_argument("--library", choices=sorted(MODULES), required=True)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--group", required=True)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--topic", action="append", default=[])
    what.add_argument("--pattern")
    parser.add_argument("--instance")
    parser.add_argument("--client-id", default="member")
    parser.add_argument("--assignor", choices=sorted(ASSIGNOR_CLASSES), default="range")
    parser.add_argument("--commit", choices=["each", "none"], default="each")
    parser.add_argument("--auto-offset-reset", default="earliest")
    parser.add_argument("--session-timeout-ms", type=int, default=30_000)
    parser.add_argument("--heartbeat-interval-ms", type=int, default=300)
    parser.add_argument("--max-poll-interval-ms", type=int, default=60_000)
    # So that a member whose first look at the metadata failed does not wait for minutes.
    parser.add_argument("--metadata-max-age-ms", type=int, default=2_000)
    return parser.parse_args()


def main() -> int:
    """Run the member; the exit code says whether it ended of its own will."""
    options = arguments()
    events = Events()
    orders = Orders()
    events.tell("started", pid=os.getpid())
    module = importlib.import_module(f"tests.live.member.{MODULES[options.library]}")
    code = module.run(options, events, orders)
    events.tell("closed", code=code)
    return code


if __name__ == "__main__":
    sys.exit(main())
