"""`python -m demo`: run the demo; the exit code is 0 only if every record was read."""

import argparse
import contextlib
import signal
import sys
import tempfile
import time
import uuid
import warnings
import webbrowser
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from coterie.address import Address
from coterie.processes import FAST_GROUPS, BrokerProcess, ProcessFailed, first_answer

if TYPE_CHECKING:
    from demo.scenario import Target
    from demo.view import Scene

# Long enough that a member which only waits for a busy processor keeps its session.
OWN_SESSION_MS = 2500
# The least that Kafka accepts with its default settings.
KAFKA_SESSION_MS = 6000

# The width for output that is not a terminal.
PLAIN_WIDTH = 100

EXIT_FAILED = 1
EXIT_INTERRUPTED = 130


def arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="python -m demo", description=__doc__)
    parser.add_argument(
        "--bootstrap",
        metavar="HOST:PORT",
        help="use this broker instead of starting a server",
    )
    parser.add_argument(
        "--server",
        metavar="PROGRAM",
        help="start this program instead of the `coterie` of this environment",
    )
    parser.add_argument(
        "--no-browser", action="store_true", help="do not open the console in a browser"
    )
    return parser.parse_args()


@contextlib.contextmanager
def target_of(options: argparse.Namespace) -> Iterator["Target"]:
    """Return the broker to use, which is started and stopped here unless it runs already."""
    from demo.scenario import DemoError, Target

    if options.bootstrap:
        try:
            first_answer(Address.parse(options.bootstrap))
        except (OSError, ValueError) as error:
            raise DemoError(
                f"no broker responds at {options.bootstrap} ({error}). Start it, or omit"
                " --bootstrap."
            ) from error
        yield Target(options.bootstrap, f"broker {options.bootstrap}", KAFKA_SESSION_MS)
        return
    with tempfile.TemporaryDirectory(prefix="coterie-demo-") as directory:
        broker = BrokerProcess(Path(directory) / "data", FAST_GROUPS, options.server)
        try:
            start_s = broker.start()
            description = f"coterie {broker.bootstrap}, started in {start_s:.2f} s"
            yield Target(broker.bootstrap, description, OWN_SESSION_MS, broker.check)
        finally:
            broker.stop()


def opens_browser(options: argparse.Namespace) -> bool:
    """Return whether a person is there who may look at the console."""
    return not options.no_browser and sys.stdout.isatty()


@contextlib.contextmanager
def console_of(target: "Target", scene: "Scene", *, opens_browser: bool) -> Iterator[None]:
    """Serve the console of a broker, and open it in a browser if there is one."""
    # Imported here, because --help needs no server.
    from coterie.client.cluster import Cluster
    from coterie.console.places import Place
    from coterie.console.serving import ConsoleServer

    place = Place(lambda: Cluster(target.bootstrap), target.bootstrap)
    with ConsoleServer(place) as served:
        # It ends with the demo, so its address is of use to a person who watches only.
        if opens_browser and webbrowser.open(served.url):
            scene.log("", "the console is open in the browser; it ends with the demo")
        elif opens_browser:
            scene.log("", f"console on {served.url}")
        yield


def run(options: argparse.Namespace, console: Console) -> int:
    """Run the demo and return the exit code."""
    with warnings.catch_warnings():
        # kafka-python 3.0 reads its schemas in a way that Python 3.11 deprecates.
        warnings.simplefilter("ignore", DeprecationWarning)
        # Imported here, because --help needs no client library.
        from demo.scenario import PARTITIONS, DemoError, Scenario
        from demo.view import Scene, View
    began_s = time.monotonic()
    try:
        with target_of(options) as target:
            scene = Scene(PARTITIONS)
            scene.log("", target.description)
            view = View(console, scene)
            scenario = Scenario(target, f"demo-{uuid.uuid4().hex[:8]}", scene, view)
            try:
                with console_of(target, scene, opens_browser=opens_browser(options)), view:
                    scenario.run()
                succeeded, lines = scenario.result()
            finally:
                scenario.close()
    except (DemoError, ProcessFailed) as error:
        console.print(f"demo: {error}", style="red", markup=False, highlight=False)
        return EXIT_FAILED
    console.print()
    for line in lines:
        console.print(line, highlight=False)
    ending = "every record was read" if succeeded else "NOT every record was read"
    console.print(f"{ending}; {time.monotonic() - began_s:.0f} s in all", style="bold")
    return 0 if succeeded else EXIT_FAILED


def main() -> int:
    """Run the demo; print one message for every kind of failure."""
    options = arguments()
    # These signals raise KeyboardInterrupt, so that all child processes are ended.
    for each in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.default_int_handler)
    terminal = sys.stdout.isatty()
    console = Console() if terminal else Console(width=PLAIN_WIDTH, color_system=None)
    try:
        return run(options, console)
    except ImportError as error:
        console.print(f"demo: {error.name} is not installed. Run `make setup` first.", style="red")
        return EXIT_FAILED
    except KeyboardInterrupt:
        console.print("demo: interrupted; all its processes have ended", style="red")
        return EXIT_INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
