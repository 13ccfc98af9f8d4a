"""A page without a browser: it asks a console, and reads its events in a thread."""

import functools
import json
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from coterie.client.cluster import Cluster
from coterie.console.places import Place
from coterie.console.serving import ConsoleServer

# A machine at load 20 takes seconds for what takes milliseconds.
LIMIT_S = 60.0


@contextmanager
def console(
    bootstrap: str, connect: Callable[[], Cluster] | None = None
) -> Iterator[ConsoleServer]:
    """A console of a cluster; `connect` connects to another one when the first is away."""
    place = Place(connect or functools.partial(Cluster, bootstrap), bootstrap)
    with ConsoleServer(place) as served:
        yield served


class Seen(NamedTuple):
    """An event, and when it came."""

    at_ms: int
    name: str
    data: Any


class Page:
    """The events of a stream until now."""

    def __init__(self) -> None:
        """Nothing came yet."""
        self.events: list[Seen] = []
        self._arrived = threading.Condition()

    def add(self, event: Seen) -> None:
        """Add an event."""
        with self._arrived:
            self.events.append(event)
            self._arrived.notify_all()

    def wait(self, name: str, holds: Callable[[Any], object]) -> Seen:
        """Return the first event of a name for which something holds."""
        end_s = time.monotonic() + LIMIT_S
        looked = 0
        with self._arrived:
            while True:
                for each in self.events[looked:]:
                    if each.name == name and holds(each.data):
                        return each
                looked = len(self.events)
                if not self._arrived.wait(end_s - time.monotonic()):
                    break
        last = [each for each in self.events if each.name == name][-1:]
        raise AssertionError(f"no such event '{name}'; the last one is {last}")


@contextmanager
def page(served: ConsoleServer, path: str) -> Iterator[Page]:
    """Read a stream of events until the block ends."""
    request = urllib.request.Request(
        f"http://{served.address}{path}", headers={"authorization": f"Bearer {served.token}"}
    )
    found = Page()
    with urllib.request.urlopen(request, timeout=LIMIT_S) as response:

        def read() -> None:
            name = ""
            # The end of the block closes the response under the reader.
            try:
                for line in response:
                    text = line.decode().rstrip("\n")
                    if text.startswith("event: "):
                        name = text.removeprefix("event: ")
                    elif text.startswith("data: "):
                        data = json.loads(text.removeprefix("data: "))
                        found.add(Seen(int(time.time() * 1000), name, data))
            except (OSError, ValueError, AttributeError):
                return

        thread = threading.Thread(target=read, name="page", daemon=True)
        thread.start()
        yield found
