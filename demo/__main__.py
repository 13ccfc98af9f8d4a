"""`python -m demo`: run the story; the exit code is 0 only if every record was read."""

import argparse
import contextlib
import signal
import sys
import time
import uuid
import warnings
from collections.abc import Iterator

from rich.console import Console

from demo.server import DemoError, Stage, answers, serving

# Long enough not to expel a member that merely waits for a busy processor.
OUR_SESSION_MS = 2500
# The least that a Kafka with default settings accepts.
KAFKA_SESSION_MS = 6000

# For a file or a CI log, where nobody tells the width.
PLAIN_WIDTH = 100

EXIT_FAILED = 1
EXIT_INTERRUPTED = 130


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m demo", description=__doc__)
    parser.add_argument(
        "--bootstrap",
        metavar="HOST:PORT",
        help="perform against this broker instead of a server of our own",
    )
    parser.add_argument(
        "--server",
        metavar="PROGRAM",
        help="the program to start instead of the `coterie` of this environment",
    )
    return parser.parse_args()


@contextlib.contextmanager
def broker(options: argparse.Namespace) -> Iterator[Stage]:
    """The broker to perform against."""
    if options.bootstrap:
        if not answers(options.bootstrap):
            raise DemoError(
                f"no broker answers at {options.bootstrap}. Start it, or leave the option."
            )
        yield Stage(options.bootstrap, f"broker {options.bootstrap}", KAFKA_SESSION_MS)
        return
    with serving(options.server) as server:
        where = f"coterie {server.bootstrap}, up in {server.start_s:.2f} s"
        yield Stage(server.bootstrap, where, OUR_SESSION_MS, server.check)


def perform(options: argparse.Namespace, console: Console) -> int:
    """Run the story; returns the exit code."""
    try:
        with warnings.catch_warnings():
            # kafka-python 3.0 reads its schemas in a way that Python 3.11 deprecates.
            warnings.simplefilter("ignore", DeprecationWarning)
            from demo.story import PARTITIONS, Story  # after --help, which needs no client
            from demo.view import Scene, View
    except ImportError as error:
        raise DemoError(f"{error.name} is not installed. Run `make setup` first.") from error
    began = time.monotonic()
    with broker(options) as stage:
        scene = Scene(PARTITIONS)
        scene.tell("", stage.where)
        view = View(console, scene)
        story = Story(stage, f"demo-{uuid.uuid4().hex[:8]}", scene, view)
        try:
            with view:
                story.tell()
            well, lines = story.verdict()
        finally:
            story.close()
    console.print()
    for line in lines:
        console.print(line, highlight=False)
    ending = "every record was read" if well else "NOT every record was read"
    console.print(f"{ending}; {time.monotonic() - began:.0f} s in all", style="bold")
    return 0 if well else EXIT_FAILED


def main() -> int:
    """Run it and turn every trouble into one message."""
    options = arguments()
    # However it is told to end, it puts away what it started.
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, signal.default_int_handler)
    terminal = sys.stdout.isatty()
    console = Console() if terminal else Console(width=PLAIN_WIDTH, color_system=None)
    try:
        return perform(options, console)
    except DemoError as error:
        console.print(f"demo: {error}", style="red", markup=False, highlight=False)
        return EXIT_FAILED
    except KeyboardInterrupt:
        console.print("demo: interrupted; everything it started is ended", style="red")
        return EXIT_INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
