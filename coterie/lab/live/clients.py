"""What a live run has to know of the participants: how they start, and what they need.

`LiveRun` is the surroundings of one run. A `LiveClient` starts its servers in `prepare`, and gives
the command line of each member; everything else (the script, signals, lines, the measurement) is
the same for all. known.py has them by name.
"""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from coterie.client.client_properties import security_of
from coterie.client.cluster import Cluster
from coterie.lab.errors import WrongInput
from coterie.lab.live.measure import Replay
from coterie.lab.parameters import Parameters
from coterie.lab.scenario import Scenario
from coterie.processes import Child, Children
from coterie.storage.properties import read_properties

# What can be done to every process; see `Event.do`.
PROCESS_STEPS = frozenset({"start", "stop", "kill", "pause"})


class PodProcess(NamedTuple):
    """A process that is to be started.

    Attributes:
        pod: the name of its pod.
        life: the number of the pod's process, from 1 on.
        instance: the id that it keeps from process to process; None without.
        directory: where it writes its lines, to the file `lines`.
    """

    pod: str
    life: int
    instance: str | None
    directory: Path

    @property
    def lines(self) -> Path:
        """The file to which it writes its lines."""
        return self.directory / f"{self.identity}.jsonl"

    @property
    def identity(self) -> str:
        """The name of the member; a process that keeps its instance id is the same member."""
        return self.instance or f"{self.pod}.{self.life}"


class LiveRun:
    """The surroundings of a live run.

    Attributes:
        scenario, machine, parameters: what is run.
        directory: for logs, data and lines (in `lines`).
        children: the child processes.
        report: called with a line of text for the user.
        command_config: a file with client properties; None for plain connections.
        bootstrap: the broker's HOST:PORT; "" until a client or the driver has started one.
        zookeeper: HOST:PORT of a running ZooKeeper; "" without.
        group: the group.
        counts: the number of partitions of each topic.
        broker: what the servers are, for the result.
    """

    def __init__(
        self,
        scenario: Scenario,
        machine: str,
        parameters: Parameters,
        directory: Path,
        children: Children,
        report: Callable[[str], object],
    ) -> None:
        self.scenario = scenario
        self.machine = machine
        self.parameters = parameters
        self.directory = directory
        self.lines = directory / "lines"
        self.children = children
        self.report = report
        self.command_config: str | None = None
        self.bootstrap = ""
        self.zookeeper = ""
        self.group = "lab"
        self.broker = ""
        each, extra = divmod(scenario.partitions, scenario.topics)
        names = ["t"] if scenario.topics == 1 else [f"t{n}" for n in range(scenario.topics)]
        self.counts = {name: each + (index < extra) for index, name in enumerate(names)}

    def cluster(self) -> Cluster:
        """Return a connection to the broker, which logs in if the members do.

        Raises:
            ClientError: the client properties are wrong.
        """
        return cluster_at(self.bootstrap, self.command_config)


def cluster_at(bootstrap: str, command_config: str | None) -> Cluster:
    """Return a connection to a broker with the client properties of a file, if there is one.

    Raises:
        ClientError: the client properties are wrong.
    """
    if command_config is None:
        return Cluster(bootstrap)
    properties = read_properties(Path(command_config).read_text(encoding="utf-8"))
    return Cluster(bootstrap, security=security_of(properties))


class LiveClient:
    """Participants of one kind.

    Attributes:
        summary: what it is, in a line.
        machines: the machines of the lab that it runs, the usual one first.
        software: name and release of what takes part.
        steps: what the script may do to it.
        topics_in_broker: whether the driver creates the topics in a Kafka broker, which it starts
            if the user gives none.
        produces: whether the driver produces to them.
        logs_in: whether members can log in with client properties.
        speaks: whether members write that they end.
        replay: how lines of members become calls of the ledger.
    """

    summary = ""
    machines: tuple[str, ...] = ()
    software = ""
    steps = PROCESS_STEPS
    topics_in_broker = True
    produces = True
    logs_in = False
    speaks = True
    replay: type[Replay] = Replay

    def check(self) -> None:
        """Check that everything that is not fetched is there.

        Raises:
            WrongInput: it is not; the text says what to install.
        """

    def prepare(self, run: LiveRun) -> None:
        """Start the servers that the members need besides a broker.

        Raises:
            PartMissing: something can't be had.
            WrongInput: something does not start.
        """

    def begin(self, run: LiveRun) -> None:
        """Begin to produce, or whatever gives the first members work; called before they start."""

    def command(self, run: LiveRun, member: PodProcess) -> list[str]:
        """Return the command line of a member."""
        raise NotImplementedError

    def started(self, run: LiveRun, member: PodProcess, child: Child) -> None:
        """Note that a member's process has been started."""

    def observe(self, run: LiveRun) -> None:
        """Look at what members do not say themselves; called several times a second."""


def need_module(module: str, package: str) -> None:
    """Check that a client library is installed.

    Raises:
        WrongInput: it is not.
    """
    if find_spec(module) is None:
        raise WrongInput(f"The library {package} is not installed: pip install {package}")
