"""Spark's JVM: started by the run that needs it, and ended by it, whatever happens.

PySpark starts the JVM itself if it is not given one, and keeps no hold of it while it starts. A run
that ended in these seconds removed the directory in which the JVM was to write its port; the JVM's
main thread then failed, and a thread of its server kept the process alive for ever. So we start the
JVM with the same command, in a process group of its own, and kill the group at the end. If this
process is killed, the JVM reads the end of its standard input and exits, because its directory is
still there.

Invariant: `end` leaves no process of the group, also if it is called during `start`.
"""

import atexit
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import Any

_PORT, _SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"
_POLL_INTERVAL_S = 0.05
# After its standard input was closed, a JVM ends its workers and itself within this time.
_END_S = 5.0


class JvmEnded(Exception):  # noqa: N818 - says what happened
    """The JVM ended before it listened. The message has its exit code."""


class Jvm:
    """A JVM with Spark's server for Python; `end` may be called from any thread, at any time."""

    def __init__(self, scratch: str) -> None:
        """Start nothing yet.

        Args:
            scratch: a directory that remains until the JVM has ended.
        """
        self._connection = os.path.join(scratch, "gateway")
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._is_ended = False

    def start(self, settings: Mapping[str, str]) -> dict[str, str]:
        """Start the JVM, wait until it listens, and return PySpark's variables for it.

        Args:
            settings: Spark settings, of which some matter before the JVM runs.

        Raises:
            JvmEnded: it ended before that, or `end` was called.
        """
        from pyspark.find_spark_home import _find_spark_home

        command = [os.path.join(_find_spark_home(), "bin", "spark-submit")]
        for key, value in settings.items():
            command += ["--conf", f"{key}={value}"]
        with self._lock:
            if self._is_ended:
                raise JvmEnded("the run has ended")
            atexit.register(self.end)
            self._process = subprocess.Popen(  # noqa: S603 - the Spark that is installed
                [*command, "pyspark-shell"],
                # The JVM exits when this pipe is closed.
                stdin=subprocess.PIPE,
                env={
                    **os.environ,
                    "SPARK_CONNECT_MODE": "0",
                    "_PYSPARK_DRIVER_CONN_INFO_PATH": self._connection,
                },
                # Ctrl-C in a terminal reaches this process only, which then ends the JVM.
                start_new_session=True,
            )
        while not os.path.isfile(self._connection):
            code = self._process.poll()
            if code is not None:
                raise JvmEnded(f"Java has ended with exit code {code}")
            time.sleep(_POLL_INTERVAL_S)
        # The JVM renames the file when it is complete.
        with open(self._connection, "rb") as file:
            port = int.from_bytes(file.read(4))
            secret = file.read(int.from_bytes(file.read(4))).decode()
        return {_PORT: str(port), _SECRET: secret}

    def end(self, *, patience_s: float = 0.0) -> None:
        """End the JVM and all processes of its group.

        Args:
            patience_s: how long it may take to end its workers and itself.
        """
        with self._lock:
            self._is_ended = True
            process, self._process = self._process, None
        if process is None:
            return
        atexit.unregister(self.end)
        if process.stdin is not None:
            with suppress(OSError):
                process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            process.wait(patience_s)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


# The JVM of this process. PySpark has one in a process, too.
_current: Jvm | None = None


def start_with_jvm(scratch: str, settings: Mapping[str, str], start: Callable[[], object]) -> None:
    """Start a JVM if this process has none, and PySpark with it.

    Both are done in a thread. So a signal finds the main thread waiting, and not in a call to the
    JVM, and PySpark does not take over Ctrl-C.

    Args:
        scratch, settings: see `Jvm`.
        start: starts PySpark.

    Raises:
        JvmEnded: see `Jvm.start`.
    """
    global _current  # noqa: PLW0603
    from pyspark import SparkContext

    # PySpark has no public name for the JVM that it uses.
    is_needed = getattr(SparkContext, "_gateway", None) is None and _PORT not in os.environ
    jvm = Jvm(scratch)
    if is_needed:
        _current = jvm
    done: Future[None] = Future()

    def work() -> None:
        variables: dict[str, str] = {}
        try:
            if is_needed:
                variables = jvm.start(settings)
                os.environ.update(variables)
            start()
        except BaseException as error:  # noqa: BLE001 - raised in the thread that waits
            done.set_exception(error)
        else:
            done.set_result(None)
        finally:
            for name in variables:
                os.environ.pop(name, None)

    threading.Thread(target=work, name="start Spark", daemon=True).start()
    try:
        done.result()
    except BaseException:
        jvm.end()
        raise


@contextmanager
def ending_jvm() -> Iterator[None]:
    """End the JVM that a session in the block has started, whatever ends the block.

    SIGTERM ends the block like Ctrl-C, with another exit code.
    """
    global _current
    before, handlers = _current, _handlers()
    # py4j logs the stack traces of calls that were interrupted.
    disabled = logging.root.manager.disable
    logging.disable()
    is_good = False
    try:
        if handlers:
            signal.signal(signal.SIGTERM, _terminate)
        yield
        is_good = True
    finally:
        # A second Ctrl-C must not end the end.
        for number in handlers:
            signal.signal(number, signal.SIG_IGN)
        started, _current = _current, before
        if started is not None and started is not before:
            started.end(patience_s=_END_S if is_good else 0.0)
            _forget_gateway()
        logging.disable(disabled)
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _handlers() -> dict[int, Any]:
    """Return the handlers of the signals that end a run; none outside of the main thread."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    return {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}


def _terminate(number: int, _: object) -> None:
    sys.exit(128 + number)


def _forget_gateway() -> None:
    """Let PySpark start anew in this process, and not talk to a JVM that has ended."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    for owner, name in (
        (SparkContext, "_gateway"),
        (SparkContext, "_jvm"),
        (SparkContext, "_active_spark_context"),
        (SparkSession, "_instantiatedSession"),
    ):
        setattr(owner, name, None)
