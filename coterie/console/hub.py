"""What is pushed to pages: a source is read once, however many pages look at it.

A source is what one kind of page shows: all groups, or one group. Its thread runs while a page is
open and ends with the last one. It makes events; each is encoded once and put into the queue of
every reader. A reader that is more than `QUEUE_EVENTS` or `QUEUE_BYTES` behind is dropped with an
`error` event, so that it costs neither memory nor the time of others [console/hub].

Invariant: a new reader first gets the snapshot of the source and then exactly the events after it,
also those of a thread that still ends because the readers before it have gone.
"""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Hashable
from typing import Protocol

from coterie.client.errors import ClientError
from coterie.client.times import now_ms
from coterie.console.event import Event, encoded
from coterie.server.network.http_errors import failure_of

# A page that reads at all has read the event of a second before.
QUEUE_EVENTS = 256
# The first event of 10,000 groups has ten megabytes.
QUEUE_BYTES = 32 * 1024 * 1024
# Sources without a page that are kept with what they have seen, so that a page which is opened
# again has it; the oldest go first.
IDLE_SOURCES = 16

_log = logging.getLogger("coterie.console")

Publish = Callable[[Event], None]


class Source(Protocol):
    """What one kind of page shows."""

    def run(self, publish: Publish, stopped: threading.Event, opened_ms: int) -> None:
        """Read and publish until `stopped` is set; it is called in a thread.

        State that `snapshot` returns is changed only inside `publish`d steps: a source changes it,
        and publishes what has changed, while it holds `lock`.

        Args:
            publish: sends an event to all readers.
            stopped: is set when the last reader has gone.
            opened_ms: when the first reader came, epoch milliseconds. The thread may begin later.
        """

    def snapshot(self) -> list[Event]:
        """Return the events that a new reader needs; the hub holds `lock`."""

    @property
    def lock(self) -> threading.Lock:
        """The lock of its state."""


def client_failure(error: ClientError) -> dict[str, str | None]:
    """Return the JSON of an error between console and cluster."""
    return {"error": error.cause, "remedy": error.remedy, "kind": type(error).__name__}


def report_failure(error: BaseException) -> None:
    """Log an error that is a bug of ours."""
    _log.error("the console failed", exc_info=error)


def failure_event(
    error: BaseException, report: Callable[[BaseException], None] = report_failure
) -> Event:
    """Return the `error` event of an exception; one that is no error of a peer is reported."""
    if isinstance(error, ClientError):
        return Event("error", client_failure(error))
    report(error)
    return Event("error", failure_of(error, {}).body)


_TOO_SLOW = Event(
    "error",
    {
        "error": "This page read too slowly and was cut off.",
        "remedy": "Open it again; a page in the background may be slowed down by its browser.",
        "kind": "TooSlow",
    },
)


class Subscription:
    """The events of one reader, encoded. It is an asynchronous iterator, and belongs to one loop.

    Close it with `aclose`, also when nothing was read.
    """

    def __init__(self, channel: "_Channel") -> None:
        self._channel = channel
        self._loop = asyncio.get_running_loop()
        self._arrived = asyncio.Event()
        self._waiting: deque[bytes] = deque()
        self._bytes = 0
        self._has_ended = False
        channel.add(self)

    def put(self, chunk: bytes, *, is_last: bool = False) -> None:
        """Add an event; called with the channel's lock held, in any thread."""
        if self._has_ended:
            return
        full = len(self._waiting) >= QUEUE_EVENTS or self._bytes + len(chunk) > QUEUE_BYTES
        # The first event is the snapshot, whatever its size.
        if full and self._waiting:
            self._waiting.clear()
            self._bytes = 0
            chunk, is_last = encoded(_TOO_SLOW), True
        self._has_ended = is_last
        self._waiting.append(chunk)
        self._bytes += len(chunk)
        # A loop that is closed has no readers.
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._arrived.set)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        while True:
            with self._channel.lock:
                if self._waiting:
                    chunk = self._waiting.popleft()
                    self._bytes -= len(chunk)
                    return chunk
                if self._has_ended:
                    raise StopAsyncIteration
                self._arrived.clear()
            await self._arrived.wait()

    async def aclose(self) -> None:
        """End the subscription."""
        self._channel.remove(self)


class _Channel:
    """A source with its thread and its readers."""

    def __init__(self, source: Source, name: str) -> None:
        self.source = source
        self.lock = source.lock
        self._name = name
        self._readers: list[Subscription] = []
        self._stopped: threading.Event | None = None
        # A thread that has to stop may still be at its last request when the next one starts.
        self._turn = threading.Lock()

    @property
    def is_idle(self) -> bool:
        """Whether nobody reads."""
        return not self._readers

    def add(self, reader: Subscription) -> None:
        """Give a reader the snapshot and then every event; the first one starts the thread."""
        with self.lock:
            for event in self.source.snapshot():
                reader.put(encoded(event))
            self._readers.append(reader)
            if self._stopped is None:
                self._stopped = threading.Event()
                opened_ms = now_ms()
                threading.Thread(
                    target=self._run, args=(self._stopped, opened_ms), name=self._name, daemon=True
                ).start()

    def remove(self, reader: Subscription) -> None:
        """Forget a reader; the last one stops the thread."""
        with self.lock:
            if reader in self._readers:
                self._readers.remove(reader)
            if not self._readers and self._stopped is not None:
                self._stopped.set()
                self._stopped = None

    def stop(self) -> None:
        """Stop the thread; readers get no more events."""
        with self.lock:
            self._readers.clear()
            if self._stopped is not None:
                self._stopped.set()
                self._stopped = None

    def _run(self, stopped: threading.Event, opened_ms: int) -> None:
        def publish(event: Event) -> None:
            """Send an event to every reader; the source holds its lock.

            The snapshot of a reader that came after `stopped` was set lacks this change, too.
            """
            if not self._readers:
                return
            chunk = encoded(event)
            for each in self._readers:
                each.put(chunk)

        try:
            with self._turn:
                self.source.run(publish, stopped, opened_ms)
        except Exception as error:  # noqa: BLE001 - the readers get it
            last = encoded(failure_event(error))
            with self.lock:
                if stopped.is_set():
                    return
                for each in self._readers:
                    each.put(last, is_last=True)
                self._stopped = None
                self._readers.clear()


class Hub:
    """The sources of a console, by what they show."""

    def __init__(self) -> None:
        self._channels: dict[Hashable, _Channel] = {}
        self._is_closed = False

    def subscribe(self, key: Hashable, make: Callable[[], Source]) -> Subscription:
        """Return the events of a source; called on the loop that reads them.

        Args:
            key: what the source shows.
            make: makes the source if there is none of this key yet.
        """
        channel = self._channels.pop(key, None)
        if channel is None:
            channel = _Channel(make(), f"coterie-console-{len(self._channels)}")
        # The one that was used last is at the end.
        self._channels[key] = channel
        idle = [name for name, each in self._channels.items() if each.is_idle and each != channel]
        for name in idle[:-IDLE_SOURCES]:
            del self._channels[name]
        return Subscription(channel)

    def source(self, key: Hashable) -> Source | None:
        """Return a source that was read; None if there was no page of this key yet."""
        channel = self._channels.get(key)
        return None if channel is None else channel.source

    def close(self) -> None:
        """Stop every source."""
        for each in self._channels.values():
            each.stop()
        self._channels.clear()
