"""The script of a scenario, carried out with real processes.

start is a new process, stop is SIGTERM, kill is SIGKILL, a pause is SIGSTOP and SIGCONT, and a slow
poll is an order on standard input. Whatever else the lab can do to its models can't be done to real
processes, and is refused before the first one starts.
"""

import json
import signal
import time
from collections.abc import Callable
from contextlib import closing
from typing import NamedTuple

from coterie.lab.errors import WrongInput
from coterie.lab.kernel import SECOND, stream
from coterie.lab.live.clients import LiveClient, LiveRun, PodProcess
from coterie.lab.live.measure import Measured
from coterie.lab.live.servers import OF_OUR_BROKER, Servers
from coterie.lab.script import Event, events_of, script_digest, starts_at_forming
from coterie.processes import Child
from coterie.processes.lines import Line, Reader, Writer, now_us

_TICK_S = 0.02
_READ_EVERY_S = 0.25
# A group that is not complete after forming gets this much more time.
_FORM_LIMIT_US = 30 * SECOND
_RETRY_US = SECOND // 5
_RESTARTS = ("broker_dies", "coordinator_moves")
_REASONS = {
    "cut": "the way of this client to its servers is not in the hands of the lab",
    "kill_leader": "the members of this client have no leader in a journal",
    "coordinator_moves": "the servers of this client can't be started again with what they had",
    "server_slow": "a real server is as fast as it is",
    "follower_lags": "there is one server, which has no followers",
    "notices_lost": "the connections of real servers lose nothing",
    "topic_grows": "the topics of this client are not in a broker of Kafka",
    "broker_dies": "the servers of this client can't be started again with what they had",
    "poison": "the members of this client can process every record; those of confluent can't, and"
    " those of confluent-share",
    "slow_poll": "this client takes no orders",
}


class Progress(NamedTuple):
    """Where a run is.

    Attributes:
        phase: "forming", "script" or "settling".
        passed_s: seconds since its beginning.
        left_s: about how many are left at least.
        members: the number of processes.
        unowned: the number of partitions without a reader.
    """

    phase: str
    passed_s: float
    left_s: float
    members: int
    unowned: int


class Drive:
    """One run of real processes through a script.

    Attributes:
        run: the surroundings.
        events: the script.
        servers: the broker, and the way of the members to it.
        restarts_broker: whether the script kills the broker and starts it again.
    """

    def __init__(
        self, run: LiveRun, client: LiveClient, seed: int, form_s: int, calm_s: int
    ) -> None:
        """Prepare a run.

        Args:
            run, client: the surroundings and the participants.
            seed: of the script.
            form_s: how long the group forms.
            calm_s: a group that has been calm for so long has settled.

        Raises:
            WrongInput: the script has a step that can't be done.
        """
        self.run = run
        self._client = client
        self._seed = seed
        self._form_us = form_s * SECOND
        self._calm_us = calm_s * SECOND
        scenario = run.scenario
        random = stream(seed, f"script {scenario.name}")
        self._forming = list(starts_at_forming(scenario.members, random))
        self.events = events_of(scenario.script, scenario.members, scenario.partitions, random)
        check_steps(client, self.events, is_ours=not run.bootstrap)
        steps = {event.do for event in self.events}
        self.servers = Servers(run)
        self.servers.announce(steps)
        self.restarts_broker = not steps.isdisjoint(_RESTARTS)
        self._has_proxies = "cut" in steps
        if self._has_proxies and run.command_config is not None:
            raise WrongInput(
                "This script can't be run with --command-config: it has the event 'cut', for which"
                " members go through proxies, and these do not pass logins on."
            )
        self._pods: dict[str, tuple[PodProcess, Child]] = {}
        self._lives: dict[str, int] = {}
        # What is due: the time, and the action.
        self._due: list[tuple[int, Event]] = []
        self._leaving: set[str] = set()
        self._lines: list[Line] = []
        self._began_us = 0

    def finish(self, progress: Callable[[Progress], None]) -> tuple[list[Line], Measured]:
        """Run to the end; return all lines, and what was measured.

        Raises:
            WrongInput: a member has ended by itself, or the group does not form.
        """
        self._progress = progress
        self._reader = Reader(self.run.lines)
        with closing(Writer(str(self.run.lines / "driver.jsonl"))) as self._writer:
            return self._finish()

    def _finish(self) -> tuple[list[Line], Measured]:
        run = self.run
        self._began_us = now_us()
        rate = run.parameters.rate
        topics = tuple(run.counts)
        self._replay = self._client.replay(run.scenario, run.machine, topics, rate, self._began_us)
        formed_us = self._began_us + self._form_us
        last_us = formed_us + max((_end_of(event) for event in self.events), default=0)
        self._due = [(self._began_us + event.at_us, event) for event in self._forming]
        self._until(formed_us, "forming", lambda: False, last_us)
        self._until(formed_us + _FORM_LIMIT_US, "forming", self._formed, last_us)
        self._check_formed()
        # The script begins late if the group was late.
        late_us = max(0, now_us() - formed_us)
        formed_us, last_us = formed_us + late_us, last_us + late_us
        self._due = [(formed_us + event.at_us, event) for event in self.events]
        begin_us = min((at_us for at_us, _ in self._due), default=formed_us)
        self._until(last_us, "script", lambda: False, last_us)
        limit_us = last_us + run.scenario.tail_s * SECOND
        self._until(limit_us, "settling", lambda: self._settled(last_us), last_us)
        end_us = now_us()
        self._read()
        digest = script_digest(self._forming + self.events)
        what = Measured(
            run.scenario,
            run.machine,
            self._seed,
            {},
            topics,
            digest,
            begin_us,
            last_us,
            end_us,
            self._calm_us,
        )
        return sorted(self._lines, key=lambda line: line.at_us), what

    # -- time --------------------------------------------------------------------------------------

    def _until(self, end_us: int, phase: str, done: Callable[[], bool], last_us: int) -> None:
        """Do what is due until a time, or until something is done."""
        read_us = 0
        while (at_us := now_us()) < end_us:
            self._do_due(at_us)
            if at_us - read_us > _READ_EVERY_S * SECOND:
                read_us = at_us
                self._client.observe(self.run)
                self._read()
                self._check_processes()
                self._report(phase, at_us, last_us)
                if done():
                    return
            time.sleep(_TICK_S)

    def _do_due(self, at_us: int) -> None:
        for due_us, event in sorted(self._due, key=lambda each: each[0]):
            if due_us > at_us:
                return
            self._due.remove((due_us, event))
            getattr(self, f"_do_{event.do}")(event)

    def _read(self) -> None:
        """Read new lines, and follow what is owned."""
        lines = self._reader.new_lines()
        self._lines += lines
        for line in lines:
            self._replay.apply(line)
        self._replay.go_to(now_us())

    def _report(self, phase: str, at_us: int, last_us: int) -> None:
        left_us = max(0, last_us + self._calm_us - at_us)
        passed_s = (at_us - self._began_us) / SECOND
        self._progress(
            Progress(phase, passed_s, left_us / SECOND, len(self._pods), len(self._unowned()))
        )

    def _unowned(self) -> set[tuple[str, int]]:
        counts = self.run.counts
        owned = {each for partitions in self._replay.owned.values() for each in partitions}
        return {(name, index) for name in counts for index in range(counts[name])} - owned

    def _complete(self) -> bool:
        return not self.run.scenario.members or not self._unowned()

    def _formed(self) -> bool:
        """Return whether every process is a member and every partition has a reader."""
        return self._complete() and self._replay.ledger.calm_since_us is not None

    def _settled(self, last_us: int) -> bool:
        if not self._pods:
            return True
        calm_us = self._replay.ledger.calm_since_us
        at_us = now_us()
        calm_for_us = 0 if calm_us is None else at_us - self._began_us - calm_us
        return min(calm_for_us, at_us - last_us) >= self._calm_us

    # -- checks ------------------------------------------------------------------------------------

    def _check_formed(self) -> None:
        if self._complete():
            return
        members = sorted(self._pods.items())
        log = members[0][1][1].last_lines() if members else ""
        raise WrongInput(
            f"The group has not formed: {len(self._unowned())} partitions have no reader after"
            f" {(now_us() - self._began_us) / SECOND:.0f} s. The log of the first member ends:\n"
            f"{log}"
        )

    def _check_processes(self) -> None:
        """Note the members that have ended as they should; one that has not ends the run."""
        for pod, (member, child) in list(self._pods.items()):
            if child.running:
                continue
            if pod not in self._leaving:
                raise WrongInput(
                    f"The member {member.identity} has ended by itself. Its log ends:\n"
                    f"{child.last_lines()}"
                )
            self._leaving.discard(pod)
            del self._pods[pod]
            self._writer.write("exited", member=member.identity)

    # -- events ------------------------------------------------------------------------------------

    def _do_start(self, event: Event) -> None:
        if event.pod in self._pods:
            # It has not stopped yet: as a supervisor does, look again soon.
            self._due.append((now_us() + _RETRY_US, event))
            return
        life = self._lives[event.pod] = self._lives.get(event.pod, 0) + 1
        static = self.run.machine == "static"
        instance = event.pod if static and event.keep else None
        member = PodProcess(event.pod, life, instance, self.run.lines)
        direct = self.run.bootstrap
        if self._has_proxies:
            self.run.bootstrap = self.servers.proxied(event.pod)
        command = self._client.command(self.run, member)
        self.run.bootstrap = direct
        child = self.run.children.start(f"{event.pod}.{life}", command)
        self._pods[event.pod] = member, child
        self._writer.write("started", member=member.identity)
        self._client.started(self.run, member, child)

    def _do_stop(self, event: Event) -> None:
        found = self._pods.get(event.pod)
        if found is not None and event.pod not in self._leaving:
            self._leaving.add(event.pod)
            self._writer.write("stopped", member=found[0].identity)
            if not self._client.speaks:
                with closing(Writer(str(found[0].lines))) as writer:
                    writer.write("ending")
            found[1].signal(signal.SIGTERM)

    def _do_kill(self, event: Event) -> None:
        found = self._pods.pop(event.pod, None)
        if found is not None:
            self._leaving.discard(event.pod)
            found[1].kill()
            self._writer.write("killed", member=found[0].identity)

    def _do_pause(self, event: Event) -> None:
        found = self._pods.get(event.pod)
        if found is not None:
            found[1].signal(signal.SIGSTOP)
            self._writer.write("paused", member=found[0].identity)
            resume = event._replace(do="resume", amount=float(self._lives[event.pod]))
            self._due.append((now_us() + int(event.amount), resume))

    def _do_resume(self, event: Event) -> None:
        found = self._pods.get(event.pod)
        if found is not None and found[0].life == event.amount:
            self._writer.write("resumed", member=found[0].identity)
            found[1].signal(signal.SIGCONT)

    def _do_kill_leader(self, event: Event) -> None:
        name = self.servers.leader()
        pods = [pod for pod, (member, _) in self._pods.items() if member.identity == name]
        for pod in pods:
            self._do_kill(event._replace(pod=pod))

    def _do_topic_grows(self, event: Event) -> None:
        self.servers.grow(int(event.amount))
        self._writer.write("grown", to=int(event.amount))

    def _do_broker_dies(self, event: Event) -> None:
        self.servers.kill()
        self._writer.write("broker_gone")
        self._due.append((now_us() + int(event.amount), event._replace(do="broker_returns")))

    # The coordinator goes with the only broker, and returns with it.
    _do_coordinator_moves = _do_broker_dies

    def _do_broker_returns(self, _event: Event) -> None:
        self.servers.start()
        self._writer.write("broker_back")

    def _do_cut(self, event: Event) -> None:
        self.servers.cut(event.pod, is_cut=True)
        self._due.append((now_us() + int(event.amount), event._replace(do="mend")))

    def _do_mend(self, event: Event) -> None:
        self.servers.cut(event.pod, is_cut=False)

    def _do_poison(self, event: Event) -> None:
        """Name a record to all members that they cannot process, for a time."""
        topic, record = self.servers.next_record()
        seconds = event.amount / SECOND
        for _, child in self._pods.values():
            child.write(json.dumps({"poison": [topic, 0, record, seconds]}))
        self._due.append((now_us() + int(event.amount), event._replace(do="skip")))

    def _do_skip(self, _event: Event) -> None:
        self._writer.write("skipped", partitions=[(next(iter(self.run.counts)), 0)])

    def _do_slow_poll(self, event: Event) -> None:
        found = self._pods.get(event.pod)
        if found is not None:
            found[1].write(json.dumps({"slow": event.amount / SECOND}))


def check_steps(client: LiveClient, events: list[Event], *, is_ours: bool) -> None:
    """Check that a client can do all events.

    Args:
        client, events: the client and the script.
        is_ours: whether the lab starts the broker.

    Raises:
        WrongInput: it can't do one; the text says why.
    """
    for event in events:
        if event.do not in client.steps:
            reason = _REASONS.get(event.do, "this client has no part for it")
            raise WrongInput(
                f"This script can't be run live: it has the event '{event.do}', and {reason}."
            )
        if not is_ours and event.do in OF_OUR_BROKER:
            raise WrongInput(
                f"This script can't be run at a given broker: it has the event '{event.do}', and"
                f" {OF_OUR_BROKER[event.do]}. Leave out --bootstrap-server."
            )


def _end_of(event: Event) -> int:
    lasting = event.do in ("pause", "slow_poll", "poison", "cut", *_RESTARTS)
    return event.at_us + (int(event.amount) if lasting else 0)
