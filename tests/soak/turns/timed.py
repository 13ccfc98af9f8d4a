"""`coterie` that measures the turns of its event loop: `python -m tests.soak.turns.timed serve`.

A timer of the loop fires every millisecond. How late it fires is how long the turn before it held
the loop, but for that millisecond. The watchdog of the server would miss some of it: its thread
waits for the interpreter while the loop computes. It names the culprits.

The file in TURNS_SOCKET is a socket. Each connection gets the longest turn since the last one, as
a line of JSON.
"""

import asyncio
import gc
import json
import os
import socket
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from coterie.cli.main import main
from coterie.server import run
from coterie.server.watchdog import HeldLoop, Watchdog

SOCKET_VARIABLE = "TURNS_SOCKET"
_TICK_S = 0.001


class LongestTurns(NamedTuple):
    """What was longest since the last question.

    Attributes:
        wall_ms: the longest turn, by the clock.
        cpu_ms: the most that a turn used of a processor.
        collecting_ms: the longest search for reference cycles, which is part of a turn.
        culprit: the function of ours that ran in the longest turn, if it was seen.
    """

    wall_ms: float = 0.0
    cpu_ms: float = 0.0
    collecting_ms: float = 0.0
    culprit: str = ""


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
        self._longest_held_ms = 0
        self._fired_s = self._used_s = self._collecting_s = 0.0

    def start(self) -> None:
        """Begin to watch; called in the thread of the event loop."""
        self._fired_s, self._used_s = time.monotonic(), time.thread_time()
        self._loop.call_later(_TICK_S, self._tick)
        gc.callbacks.append(self._collects)
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(os.environ[SOCKET_VARIABLE])
        listening.listen()
        threading.Thread(target=self._answer, args=(listening,), daemon=True).start()
        super().start()

    def _tick(self) -> None:
        now_s, used_s = time.monotonic(), time.thread_time()
        wall_ms = (now_s - self._fired_s - _TICK_S) * 1000
        cpu_ms = (used_s - self._used_s) * 1000
        longest = self._longest
        if wall_ms > longest.wall_ms or cpu_ms > longest.cpu_ms:
            self._longest = longest._replace(
                wall_ms=max(wall_ms, longest.wall_ms), cpu_ms=max(cpu_ms, longest.cpu_ms)
            )
        self._fired_s, self._used_s = now_s, used_s
        self._loop.call_later(_TICK_S, self._tick)

    def _held(self, held: HeldLoop) -> None:
        self._log(held)
        if held.culprit and held.held_ms > self._longest_held_ms:
            self._longest_held_ms = held.held_ms
            self._longest = self._longest._replace(culprit=held.culprit)

    def _collects(self, phase: str, _info: dict[str, int]) -> None:
        if phase == "start":
            self._collecting_s = time.monotonic()
            return
        took_ms = (time.monotonic() - self._collecting_s) * 1000
        if took_ms > self._longest.collecting_ms:
            self._longest = self._longest._replace(collecting_ms=took_ms)

    def _answer(self, listening: socket.socket) -> None:
        while True:
            asking, _ = listening.accept()
            longest, self._longest, self._longest_held_ms = self._longest, LongestTurns(), 0
            with asking:
                asking.sendall(json.dumps(longest._asdict()).encode())


if __name__ == "__main__":
    run.Watchdog = TimedWatchdog  # type: ignore[attr-defined]
    main(prog_name="coterie")
