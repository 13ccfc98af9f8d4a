"""The life of what a test runs in a thread of its own: from `start` to `close`, or in a block.

Invariants: it is reachable when `start` returns; after `close` no thread, socket, file or task of
it is left.
"""

import asyncio
from typing import Self

from coterie.testing.bounds import check
from coterie.testing.errors import BrokerNotStarted, WrongUse, check_nothing_left
from coterie.testing.runner import Runner
from coterie.testing.server_thread import ServerThread
from coterie.testing.virtual_time import LoopRunner, VirtualClock
from coterie.testing.waiting import take_unawaited

NOT_RUNNING = "the broker does not run: call start(), or use `with`"


class Lifetime:
    """Something that runs from `start` to `close`, or in a `with` or `async with` block."""

    _thread: ServerThread | LoopRunner | None = None

    def start(self) -> Self:
        """Start it.

        Raises:
            BrokerNotStarted: a port, the directory or a setting cannot be used.
        """
        if self._thread is not None:
            raise WrongUse("the broker runs already")
        self._prepare()
        thread = self._thread = self._new_thread()
        try:
            thread.run(self._begin_in_thread())
        except BaseException:
            self._thread = None
            thread.run(self._finish_in_thread())
            thread.stop()
            self._clean_up()
            raise
        return self

    def close(self) -> None:
        """Stop it, and check that nothing of it is left.

        Raises:
            BrokerLeak: a connection, a task, a socket, a file or a thread is left.
        """
        thread = self._thread
        if thread is None:
            return
        if isinstance(thread, LoopRunner):
            raise WrongUse("the broker is in virtual time: it is closed after that block")
        self._thread = None
        self._close_guests()
        left = take_unawaited(thread.unawaited)
        left += thread.run(self._finish_in_thread())
        left += thread.left() + [f"the open file {path}" for path in self._open_files()]
        thread.stop()
        self._clean_up()
        check_nothing_left(left)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.start)

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.close)

    @property
    def thread(self) -> Runner:
        """Where it runs."""
        if self._thread is None:
            raise BrokerNotStarted(NOT_RUNNING)
        return self._thread

    # --- time -------------------------------------------------------------------------------------

    def advance(self, seconds: float) -> None:
        """Put the broker's clock forward: sessions end, rebalances time out, offsets expire.

        The clocks of clients stay, so this is for what the broker does on its own; `virtual_time`
        is for both. Several brokers have one clock.

        Raises:
            WrongUse: the number is negative or ends after ten years, or the broker is in virtual
                time.
        """
        if isinstance(self.thread, LoopRunner):
            raise WrongUse("in virtual time write `await clock.advance(seconds)`")
        check(seconds=seconds)
        assert isinstance(self.thread, ServerThread), "there are two kinds of runners"
        self.thread.advance(seconds)

    @property
    def clock(self) -> VirtualClock:
        """The clock of virtual time.

        Raises:
            WrongUse: the broker is in real time.
        """
        if not isinstance(self.thread, LoopRunner):
            raise WrongUse(
                "the broker is in real time: mark the test @pytest.mark.kafka(virtual_time=True),"
                " or use `async with kafka.virtual_time() as clock`"
            )
        return self.thread.clock

    # --- for subclasses ---------------------------------------------------------------------------

    def _new_thread(self) -> ServerThread:
        raise NotImplementedError

    async def _begin_in_thread(self) -> None:
        """Start it in its thread."""
        raise NotImplementedError

    async def _finish_in_thread(self) -> list[str]:
        """Stop what was started, in its thread; return what is left of it."""
        raise NotImplementedError

    def _open_files(self) -> list[str]:
        """Return the files that are open."""
        raise NotImplementedError

    def _close_guests(self) -> None:
        """Close what is open only while this runs."""

    def _prepare(self) -> None:
        """Do what comes before the thread."""

    def _clean_up(self) -> None:
        """Do what comes after the thread."""
