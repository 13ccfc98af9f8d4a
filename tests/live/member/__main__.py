"""The command line of a member; see the package for what a member does."""

import argparse
import importlib
import os
import sys

from tests.live.member.events import ASSIGNOR_CLASSES, Events, Orders

# Only the chosen library is imported: if it is an old one, the others may not work beside it.
MODULES = {"kafka-python": "kafka_python", "aiokafka": "aiokafka_member", "confluent": "confluent"}


def arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.live.member", description=__doc__)
    parser.add_argument("--library", choices=sorted(MODULES), required=True)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--group", required=True)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--topic", action="append", default=[])
    what.add_argument("--pattern")
    parser.add_argument("--instance")
    parser.add_argument("--client-id", default="member")
    parser.add_argument("--join", choices=["at-once", "when-ordered"], default="at-once")
    parser.add_argument("--group-protocol", choices=["classic", "consumer"], default="classic")
    parser.add_argument("--assignor", choices=sorted(ASSIGNOR_CLASSES), default="range")
    parser.add_argument("--commit", choices=["each", "none"], default="each")
    parser.add_argument("--auto-offset-reset", default="earliest")
    parser.add_argument("--session-timeout-ms", type=int, default=30_000)
    parser.add_argument("--heartbeat-interval-ms", type=int, default=300)
    parser.add_argument("--max-poll-interval-ms", type=int, default=60_000)
    # Short, so that a member whose first Metadata request failed does not wait for minutes.
    parser.add_argument("--metadata-max-age-ms", type=int, default=2_000)
    return parser.parse_args()


def main() -> int:
    """Run the member and return the exit code."""
    options = arguments()
    events = Events()
    orders = Orders()
    module = importlib.import_module(f"tests.live.member.{MODULES[options.library]}")
    events.report("started", pid=os.getpid())
    if options.join == "when-ordered":
        orders.wait_join()
    code: int = module.run(options, events, orders)
    events.report("closed", code=code)
    return code


if __name__ == "__main__":
    sys.exit(main())
