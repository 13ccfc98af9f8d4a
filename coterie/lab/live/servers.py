"""What a script does to the servers of a live run, and to the way to them.

The broker of a run is one process, so it can't do all that a cluster does; `report` says what is
done in place of it:

broker_dies        all partitions lose their broker, not one of several, and the coordinator is gone
coordinator_moves  the coordinator comes back in the same broker, with its log, and the partitions
                   are away as long as it is
cut                a member's proxy stands still, so that it reaches neither the coordinator nor its
                   partitions
"""

import signal
import sys

from coterie.address import Address
from coterie.client.connection import Deadline
from coterie.client.errors import ClientError
from coterie.client.history import journal_of, read_history
from coterie.client.offsets import LATEST, partition_offsets
from coterie.lab.errors import WrongInput
from coterie.lab.live.clients import LiveRun
from coterie.lab.parameters import Parameters
from coterie.processes import FAST_GROUPS, Child, free_port, serve_command
from coterie.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsRequestTopic,
    CreatePartitionsResponse,
)
from coterie.protocol.messages.journal_records import GenerationCompleted

_HOST = "127.0.0.1"
_INITIAL_DELAY_MS = 3_000
# The steps for which the lab must have started the broker, and why.
OF_OUR_BROKER = {
    "broker_dies": "only a broker that the lab has started can be killed and started again",
    "coordinator_moves": "only a broker that the lab has started can be killed and started again",
    "kill_leader": "no request of Kafka names the leader, and only the journal of Coterie does",
}
_INSTEAD = {
    "broker_dies": "One process is the whole cluster: all partitions are away, not those of one"
    " broker of several.",
    "coordinator_moves": "One process is the whole cluster: the coordinator comes back in the same"
    " broker, and the partitions are away as long as it is.",
    "cut": "A member is cut from its partitions, too: the coordinator and they are in one process.",
}


def _share_settings(parameters: Parameters) -> dict[str, str]:
    """Return the settings of the broker by which share groups have the timeouts of a run."""
    found: dict[str, str] = {}
    for name, value in (
        ("session.timeout.ms", parameters.session_ms),
        ("heartbeat.interval.ms", parameters.heartbeat_ms),
    ):
        if value:
            found |= {f"group.share.{name}": str(value), f"group.share.min.{name}": str(value)}
    return found


class Servers:
    """The broker that a run has started, and the proxies of its members."""

    def __init__(self, run: LiveRun) -> None:
        self.run = run
        self._broker: Child | None = None
        self._command: list[str] = []
        self._proxies: dict[str, tuple[Child, Address]] = {}

    def serve(self, *, on_disk: bool) -> None:
        """Start a broker of our own: in memory, or where it can be killed and started again."""
        run = self.run
        delay_ms = run.parameters.initial_delay_ms
        if delay_ms < 0:
            delay_ms = _INITIAL_DELAY_MS
        delays = ("group.initial.rebalance.delay.ms", "group.streams.initial.rebalance.delay.ms")
        config = {
            **FAST_GROUPS,
            **_share_settings(run.parameters),
            **dict.fromkeys(delays, str(delay_ms)),
        }
        data_dir = str(run.directory / "data") if on_disk else ":memory:"
        port = free_port()
        program = (sys.executable, "-m", "coterie")
        self._command = [*serve_command(program, port, data_dir, config), "--stop-with-input"]
        run.bootstrap = str(Address(_HOST, port))
        run.broker = "coterie"
        self.start()

    def start(self) -> None:
        """Start the broker, for the first time or again."""
        self._broker = self.run.children.start("coterie", self._command)
        self._broker.wait_for_answer(Address.parse(self.run.bootstrap))

    def kill(self) -> None:
        """Kill the broker."""
        assert self._broker is not None, "the steps have been checked"
        self._broker.kill()

    def announce(self, steps: set[str]) -> None:
        """Report what is done in place of steps that one process can't do as they are."""
        for step in sorted(steps & _INSTEAD.keys()):
            self.run.report(f"{step}: {_INSTEAD[step]}")

    # -- the group and its topics ------------------------------------------------------------------

    def leader(self) -> str | None:
        """Return the client id of the group's leader, as the journal has it; None without one."""
        try:
            with self.run.cluster() as cluster:
                facts = read_history(cluster, journal_of(cluster, self.run.group)).facts
        except ClientError as error:
            raise WrongInput(f"The leader of the group is not known: {error}.") from None
        generations = [each for each in facts if isinstance(each, GenerationCompleted)]
        if not generations:
            return None
        newest = generations[-1]
        return next(
            (each.client_id for each in newest.members if each.member_id == newest.leader), None
        )

    def next_record(self) -> tuple[str, int]:
        """Return a topic, and the offset of a record that comes soon in its first partition.

        Members hear of it before they get it.
        """
        topic = next(iter(self.run.counts))
        with self.run.cluster() as cluster:
            end = partition_offsets(cluster, {(topic, 0): LATEST})[topic, 0]
        return topic, end + self.run.parameters.rate

    def grow(self, to: int) -> None:
        """Add partitions, evenly to all topics, up to a number."""
        counts = dict(self.run.counts)
        while sum(counts.values()) < to:
            counts[min(counts, key=lambda name: counts[name])] += 1
        topics = [
            CreatePartitionsRequestTopic(name=name, count=count)
            for name, count in counts.items()
            if count > self.run.counts[name]
        ]
        with self.run.cluster() as cluster:
            request = CreatePartitionsRequest(
                topics=topics, timeout_ms=int(cluster.timeout_s * 1_000), validate_only=False
            )
            deadline = Deadline(cluster.timeout_s)
            answer = cluster.controller().call(request, CreatePartitionsResponse, deadline)
        for each in answer.results:
            if each.error_code:
                raise WrongInput(f"The broker adds no partitions to a topic: {each.error_message}")
        self.run.counts = counts

    # -- the way to them ---------------------------------------------------------------------------

    def proxied(self, pod: str) -> str:
        """Return the address of a pod's own way to the broker, a proxy that is started for it."""
        if pod not in self._proxies:
            address = Address(_HOST, free_port())
            child = self.run.children.start(
                f"proxy-{pod}",
                [
                    sys.executable, "-m", "coterie", "proxy",
                    "--listen", str(address), "--upstream", self.run.bootstrap,
                ],
            )  # fmt: skip
            child.wait_for_port(address)
            self._proxies[pod] = child, address
        return str(self._proxies[pod][1])

    def cut(self, pod: str, *, is_cut: bool) -> None:
        """Let a pod's proxy stand still, or go on."""
        found = self._proxies.get(pod)
        if found is not None:
            found[0].signal(signal.SIGSTOP if is_cut else signal.SIGCONT)
