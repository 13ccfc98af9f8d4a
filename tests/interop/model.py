"""A program, and what it finds when it runs."""

import importlib
import pkgutil
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from coterie.processes import Child, Children
from tests.interop import programs
from tests.live.broker_process import BrokerProcess
from tests.live.secured.broker import SecuredBroker
from tests.live.secured.setup import Setup

_POLL_S = 0.2


class Skipped(Exception):  # noqa: N818 - the name says what happened
    """The program cannot run here; the text says why."""


class Failed(Exception):  # noqa: N818 - as above
    """The program, or the broker, did not do what it should; the text says what."""


class Parts(NamedTuple):
    """Which parts of a program run, if it has parts with results of their own.

    Attributes:
        only: patterns of the names of the parts that are wanted; empty for all.
        kept: a directory where results of parts stay; parts without an open failure there do not
            run again. None if nothing stays.
    """

    only: tuple[str, ...] = ()
    kept: Path | None = None


ALL_PARTS = Parts()


class Surroundings:
    """What a program finds.

    Attributes:
        bootstrap: the address of the broker.
        directory: an empty directory for its files.
        children: starts processes; none outlives the program.
        setup: how clients log in, if the broker is secured; `bootstrap` is its listener for the
            administrator.
        parts: which parts of the program run.
    """

    setup: Setup

    def __init__(
        self,
        bootstrap: str,
        broker: BrokerProcess | None,
        directory: Path,
        children: Children,
        parts: Parts = ALL_PARTS,
    ) -> None:
        """Describe the surroundings; `broker` is None if somebody else started it."""
        self.bootstrap = bootstrap
        self.directory = directory
        self.children = children
        self.parts = parts
        self._broker = broker
        if isinstance(broker, SecuredBroker):
            self.setup = broker.setup
        self._run = uuid.uuid4().hex[:6]
        self.facts: list[str] = []

    def name(self, what: str) -> str:
        """Return a name for a topic or group that no other run uses."""
        return f"{what}-{self._run}"

    @property
    def owns_broker(self) -> bool:
        """Whether the broker was started for this program, so that it may be killed."""
        return self._broker is not None

    def note(self, fact: str) -> None:
        """Note something worth printing."""
        self.facts.append(fact)

    def kill_broker(self) -> None:
        """Kill the broker with SIGKILL, and start it again with its data."""
        assert self._broker is not None, "the broker was started by somebody else"
        self._broker.kill()
        self._broker.start()

    def until(self, done: Callable[[], bool], limit_s: float, what: str, *watched: Child) -> None:
        """Wait until something is so.

        Args:
            done: whether it is so; may raise OSError as long as nobody listens.
            limit_s: how long to wait.
            what: for the error.
            watched: processes that must run meanwhile.

        Raises:
            Failed: the time is over, or a process has ended.
        """
        give_up_s = time.monotonic() + limit_s
        while True:
            try:
                if done():
                    return
            except OSError:
                pass
            for child in watched:
                if not child.running:
                    raise Failed(f"{child.name} has ended, before {what}:\n{child.last_lines()}")
            if time.monotonic() > give_up_s:
                ends = "".join(f"\n{each.name}:\n{each.last_lines()}" for each in watched)
                raise Failed(f"not within {limit_s:.0f} s: {what}{ends}")
            time.sleep(_POLL_S)


class Program(NamedTuple):
    """A program.

    Attributes:
        name: the name of its module, with dashes.
        sentence: what it shows.
        run: runs it.
        config: settings of the broker that is started for it.
        is_secured: whether that broker has TLS, logins and access rules.
        brokers: how many brokers are started, in one process.
    """

    name: str
    sentence: str
    run: Callable[[Surroundings], None]
    config: dict[str, str]
    is_secured: bool
    brokers: int


def all_programs() -> list[Program]:
    """Return all programs, by name."""
    found = []
    for info in pkgutil.iter_modules(programs.__path__):
        if info.name.startswith("_"):
            continue
        module = importlib.import_module(f"{programs.__name__}.{info.name}")
        sentence = (module.__doc__ or "").partition("\n")[0]
        config = getattr(module, "CONFIG", {})
        is_secured = getattr(module, "SECURED", False)
        name = info.name.replace("_", "-")
        brokers = getattr(module, "BROKERS", 1)
        found.append(Program(name, sentence, module.run, config, is_secured, brokers))
    return sorted(found)


@contextmanager
def surroundings(
    program: Program, bootstrap: str | None, directory: Path, parts: Parts
) -> Iterator[Surroundings]:
    """Return the surroundings of a program, with a broker of its own if `bootstrap` is None."""
    directory.mkdir(parents=True)
    broker: BrokerProcess | None = None
    if bootstrap is None:
        if program.is_secured:
            broker = SecuredBroker(directory / "secured", program.config)
        else:
            broker = BrokerProcess(directory / "data", program.config, brokers=program.brokers)
        broker.start()
        bootstrap = broker.bootstrap
    elif program.is_secured:
        raise Skipped("it needs a broker with listeners of its own")
    files = directory / "files"
    files.mkdir()
    try:
        if isinstance(broker, SecuredBroker):
            broker.setup.prepare()
        with Children(directory) as children:
            yield Surroundings(bootstrap, broker, files, children, parts)
    finally:
        if broker is not None and broker in BrokerProcess.running:
            broker.stop()
