"""`coterie` that measures the turns of its event loop: `python -m tests.soak.turns.timed serve`.

A timer of the loop fires every millisecond. How late it fires is how long the turn before it held
the loop, but for that millisecond. The watchdog of the server would miss some of it: its thread
waits for the interpreter while the loop computes. It names the culprits.

Of each turn there are four figures: its time by the clock; what it used of a processor; what of
that was a full search for reference cycles; and, where the system counts it (Linux), how long the
thread was ready and waited for a processor, which is the fault of other processes.

The file in TURNS_SOCKET is a socket. Each connection gets the longest turns since the last one, as
a line of JSON.
"""

import asyncio
import gc
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from coterie.cli.main import main
from coterie.server import run
from coterie.server.watchdog import HeldLoop, Watchdog

SOCKET_VARIABLE = "TURNS_SOCKET"
_TICK_S = 0.001
# The generation of objects that only a full search looks at.
_OLDEST = 2


class LongestTurns(NamedTuple):
    """What was longest since the last question; each figure may come from a turn of its own.

    Attributes:
        wall_ms: the longest turn, by the clock.
        waited_ms: how long the thread waited in that turn for a processor.
        cpu_ms: the most that a turn used of a processor, without full searches.
        collecting_ms: what searches for reference cycles used in that turn.
        full_search_ms: the most that a full search used, which is documented.
        culprit: the function of ours that ran in the turn that used most, if it was seen.
        stack: the calls at that moment, the innermost one first.
    """

    wall_ms: float = 0.0
    waited_ms: float = 0.0
    cpu_ms: float = 0.0
    collecting_ms: float = 0.0
    full_search_ms: float = 0.0
    culprit: str = ""
    stack: tuple[str, ...] = ()


def answer_questions(taken: Callable[[], object]) -> None:
    """Answer each connection to the socket with what a function returns, as a line of JSON."""
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(os.environ[SOCKET_VARIABLE])
    listening.listen()
    threading.Thread(target=_answer, args=(listening, taken), daemon=True).start()


def _answer(listening: socket.socket, taken: Callable[[], object]) -> None:
    # Where threads are traced to count the steps of the server, this thread is none of its own.
    sys.settrace(None)
    while True:
        asking, _ = listening.accept()
        with asking:
            asking.sendall(json.dumps(taken()).encode())


class TimedWatchdog(Watchdog):
    """The server's watchdog, and the timer."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        report: Callable[[HeldLoop], None],
        limit_ms: float,
        **options: Any,
    ) -> None:
        super().__init__(loop, self._held, limit_ms, **options)
        self._log = report
        self._longest = LongestTurns()
        self._most_held_ms = 0
        self._fired_s = self._used_s = self._waited_s = self._search_began_s = 0.0
        # What searches have used in the turn, and full ones of that.
        self._searched_s = self._fully_s = 0.0
        self._scheduling: int | None = None

    def start(self) -> None:
        """Begin to watch; called in the thread of the event loop."""
        path = f"/proc/self/task/{threading.get_native_id()}/schedstat"
        if Path(path).exists():
            self._scheduling = os.open(path, os.O_RDONLY)
        self._fired_s, self._used_s = time.monotonic(), time.thread_time()
        self._waited_s = self._waiting_s()
        self._loop.call_later(_TICK_S, self._tick)
        gc.callbacks.append(self._collects)
        answer_questions(self._taken)
        super().start()

    def _waiting_s(self) -> float:
        """Return how long the thread has waited for a processor, ready to run."""
        if self._scheduling is None:
            return 0.0
        _, waited_ns, _ = os.pread(self._scheduling, 100, 0).split()
        return int(waited_ns) / 1e9

    def _tick(self) -> None:
        now_s, used_s, waited_s = time.monotonic(), time.thread_time(), self._waiting_s()
        wall_ms = (now_s - self._fired_s - _TICK_S) * 1000
        cpu_ms = (used_s - self._used_s - self._fully_s) * 1000
        longest = self._longest
        if wall_ms > longest.wall_ms:
            waited_ms = (waited_s - self._waited_s) * 1000
            longest = longest._replace(wall_ms=wall_ms, waited_ms=waited_ms)
        if cpu_ms > longest.cpu_ms:
            searched_ms = (self._searched_s - self._fully_s) * 1000
            longest = longest._replace(cpu_ms=cpu_ms, collecting_ms=searched_ms)
        if self._fully_s * 1000 > longest.full_search_ms:
            longest = longest._replace(full_search_ms=self._fully_s * 1000)
        self._longest = longest
        self._fired_s, self._used_s, self._waited_s = now_s, used_s, waited_s
        self._searched_s = self._fully_s = 0.0
        self._loop.call_later(_TICK_S, self._tick)

    def _held(self, held: HeldLoop) -> None:
        self._log(held)
        if held.culprit and held.cpu_ms > self._most_held_ms:
            self._most_held_ms = held.cpu_ms
            self._longest = self._longest._replace(culprit=held.culprit, stack=held.stack)

    def _collects(self, phase: str, info: dict[str, int]) -> None:
        # A search may run in any thread; only the loop's own counts.
        if threading.get_ident() != self._watched:
            return
        if phase == "start":
            self._search_began_s = time.thread_time()
            return
        took_s = time.thread_time() - self._search_began_s
        self._searched_s += took_s
        if info["generation"] == _OLDEST:
            self._fully_s += took_s

    def _taken(self) -> dict[str, Any]:
        """Return the longest turns since the last question."""
        longest, self._longest, self._most_held_ms = self._longest, LongestTurns(), 0
        return longest._asdict()


if __name__ == "__main__":
    run.Watchdog = TimedWatchdog  # type: ignore[attr-defined]
    main(prog_name="coterie")
