"""One run: a machine, a scenario and a seed give an outcome.

The group forms and settles, the script begins, and the run goes on until the group has been calm
for a while, or for `tail_s`. The invariants that hold for every machine are checked at the end.
"""

from typing import Any, NamedTuple

from coterie.lab.entries import in_seconds
from coterie.lab.environment import Environment
from coterie.lab.gaps import POISON
from coterie.lab.kernel import MS, SECOND, Violation, stream
from coterie.lab.machine import Machine
from coterie.lab.machines import machine_named
from coterie.lab.outcome import RunOutcome
from coterie.lab.parameters import Parameters, with_settings
from coterie.lab.pods import Pod
from coterie.lab.records import KeptRecords
from coterie.lab.scenario import Scenario
from coterie.lab.script import Event, events_of, script_digest, starts_at_forming

# A run lasts at least so long after the last event, so that machines are compared over equal times.
_LEAST_TAIL_US = 60 * SECOND
_CALM_US = 10 * SECOND
_STEP_US = 5 * SECOND
# How soon it is noticed that the last process has ended.
_NOTICE_US = 100 * MS


class RunOptions(NamedTuple):
    """What else a run may be given.

    Attributes:
        settings: settings of the model, which come before those of the scenario.
        keep_trace: whether to keep the trace as text.
        keep_details: whether requests and nodes are in the trace, too.
        checked: whether to check the invariants.
        records: keeps the records of the group; None to keep none.
    """

    settings: dict[str, Any] = {}
    keep_trace: bool = False
    keep_details: bool = False
    checked: bool = True
    records: KeptRecords | None = None


class Run:
    """A run under way.

    Attributes:
        environment, machine: what runs.
        events: the script.
    """

    def __init__(self, machine: str, scenario: Scenario, seed: int, options: RunOptions) -> None:
        """Prepare a run.

        Raises:
            WrongInput: the machine, a setting or the script is wrong.
        """
        spec = machine_named(machine)
        self._name, self._scenario, self._seed, self._options = machine, scenario, seed, options
        settings = {**scenario.settings, **options.settings}
        parameters = with_settings(with_settings(Parameters(), spec.settings), settings)
        self._settings = settings
        self.environment = Environment(
            seed,
            scenario.topics,
            scenario.partitions,
            parameters,
            keep_trace=options.keep_trace,
            keep_details=options.keep_details,
            records=options.records,
        )
        self.machine: Machine = spec.make(self.environment)
        # Pods that start again as soon as they have stopped.
        self._to_start: set[str] = set()
        random = stream(seed, f"script {scenario.name}")
        if scenario.recording is not None:
            self._forming, self.events = map(list, scenario.recording)
            return
        self._forming = list(starts_at_forming(scenario.members, random))
        self.events = events_of(scenario.script, scenario.members, scenario.partitions, random)

    # -- the run -----------------------------------------------------------------------------------

    def finish(self) -> RunOutcome:
        """Run to the end.

        Raises:
            Violation: an invariant does not hold.
        """
        world, ledger = self.environment.world, self.environment.ledger
        for event in self._forming:
            world.at(event.at_us, self._do, event)
        formed_us = self._scenario.form_s * SECOND
        first_us = self.events[0].at_us if self.events else 0
        world.run_until(formed_us + first_us)
        ledger.begin_window()
        self.environment.network.traffic.__init__()  # type: ignore[misc]
        for event in self.events:
            world.at(formed_us + event.at_us, self._do, event)
        last_us = formed_us + max((_end_of(event) for event in self.events), default=0)
        world.run_until(last_us)
        # When everybody has gone nothing is left to measure.
        while world.now_us < last_us + _LEAST_TAIL_US and not self._deserted():
            world.run_until(min(world.now_us + _NOTICE_US, last_us + _LEAST_TAIL_US))
        limit_us = last_us + self._scenario.tail_s * SECOND
        while world.now_us < limit_us and (not self._settled(last_us) or ledger.undelivered()):
            world.run_until(min(world.now_us + _STEP_US, limit_us))
        settled = self._settled(last_us)
        ledger.end_window()
        if self._options.checked:
            self._check(settled=settled)
        return self._outcome(last_us, settled=settled)

    def first_of_next(self, api: str, after_us: int) -> int:
        """Form the group; return when the first request of an API is sent after a time.

        The run can't be finished afterwards.
        """
        world, traffic = self.environment.world, self.environment.network.traffic
        for event in self._forming:
            world.at(event.at_us, self._do, event)
        world.run_until(after_us)
        before = traffic.requests.get(api, 0)
        while traffic.requests.get(api, 0) == before:
            world.run_until(world.now_us + MS)
        return world.now_us

    def _deserted(self) -> bool:
        """Return whether no process runs and none will."""
        running = any(pod.running for pod in self.environment.pods.values())
        return not running and not self._to_start

    def _settled(self, last_us: int) -> bool:
        since_us = self.environment.ledger.calm_since_us
        if self._deserted():
            return True
        now_us = self.environment.world.now_us
        return since_us is not None and now_us - max(since_us, last_us) >= _CALM_US

    # -- events ------------------------------------------------------------------------------------

    def _do(self, event: Event) -> None:
        """Carry an event out. One that finds its pod in another state does nothing."""
        self.environment.world.note("event", event.do, event.pod, event.amount)
        getattr(self, f"_do_{event.do}")(event)

    def _do_start(self, event: Event) -> None:
        pod = self.environment.pod(event.pod)
        if pod.running:
            # It has not stopped yet: as a supervisor does, look again soon.
            self._to_start.add(event.pod)
            self.environment.world.after(SECOND, self._do_start, event)
            return
        self._to_start.discard(event.pod)
        pod.keeps_identity = self.machine.keeps_identity and event.keep
        pod.on_exit = self._exited
        pod.life += 1
        pod.begin(self.machine.participant(pod))

    def _exited(self, pod: Pod) -> None:
        self.environment.ledger.end(pod.identity)

    def _do_stop(self, event: Event) -> None:
        pod = self.environment.pod(event.pod)
        if pod.running and not pod.closing:
            pod.closing = True
            pod.act(pod.life, pod.participant.close, ())

    def _do_kill(self, event: Event) -> None:
        pod = self.environment.pod(event.pod)
        if pod.running:
            self.environment.ledger.died(pod.identity)
            pod.on_exit = lambda _: None
            pod.exit()
            self.machine.process_died(pod)

    def _do_kill_leader(self, event: Event) -> None:
        leader = self.machine.leader()
        if leader is not None:
            self._do_kill(event._replace(pod=leader))

    def _do_pause(self, event: Event) -> None:
        pod = self.environment.pod(event.pod)
        if pod.running and not pod.paused:
            pod.paused = True
            self.environment.ledger.suspend(pod.identity)
            self.machine.process_paused(pod)
            self.environment.world.after(int(event.amount), self._resume, pod, pod.life)

    def _resume(self, pod: Pod, life: int) -> None:
        if pod.running and pod.life == life:
            self.environment.ledger.resume(pod.identity)
            pod.resume()

    def _do_cut(self, event: Event) -> None:
        until_us = self.environment.world.now_us + int(event.amount)
        for server in self.machine.servers():
            self.environment.network.cut(event.pod, server, until_us)

    def _do_slow_poll(self, event: Event) -> None:
        pod = self.environment.pod(event.pod)
        if pod.running:
            pod.busy_until_us = self.environment.world.now_us + int(event.amount)
            pod.participant.slow_poll(int(event.amount))

    def _do_poison(self, event: Event) -> None:
        """Let a record arrive in the first partition that no application can process."""
        ledger, machine = self.environment.ledger, self.machine
        if machine.deliveries:
            # It is delivered again beside the other records, and given up in the end.
            ledger.count.duplicates += machine.deliveries - 1
            ledger.count.delivered += machine.deliveries - 1
            return
        partitions = self.environment.workload.partitions[:1]
        ledger.darken(partitions, POISON)
        # Then somebody skips it.
        self.environment.world.after(int(event.amount), ledger.lighten, partitions)

    def _do_coordinator_moves(self, event: Event) -> None:
        self.machine.coordinator_moves(int(event.amount))

    def _do_topic_grows(self, event: Event) -> None:
        environment = self.environment
        environment.ledger.grow(
            environment.workload.grow(int(event.amount), environment.world.now_us)
        )
        self.machine.topic_grew()

    def _do_broker_dies(self, event: Event) -> None:
        environment = self.environment
        partitions = environment.workload.partitions[:: environment.parameters.data_brokers]
        environment.ledger.darken(partitions)
        dark_us = self.machine.broker_dies(int(event.amount))
        environment.world.after(dark_us, environment.ledger.lighten, partitions)

    def _do_server_slow(self, event: Event) -> None:
        self.machine.server_slow(event.amount)

    def _do_follower_lags(self, event: Event) -> None:
        self.machine.follower_lags(int(event.amount))

    def _do_notices_lost(self, event: Event) -> None:
        self.machine.notices_lost(event.amount)

    # -- the end -----------------------------------------------------------------------------------

    def _check(self, *, settled: bool) -> None:
        """Check what holds for every machine."""
        ledger = self.environment.ledger
        count = ledger.count
        attributed = sum(count.causes.values())
        _require(
            attributed == count.unowned_us,
            "causes",
            f"{attributed} us have a cause, but partitions had no reader for {count.unowned_us} us",
        )
        reading = {
            pod.identity: found
            for pod in self.environment.pods.values()
            if pod.running and not pod.paused and (found := pod.participant.reading())
        }
        _require(
            self.machine.shared or reading == ledger.readers(),
            "ledger",
            "it has other readers than the members say",
        )
        doubling = any(event.do in self.machine.doubling for event in self.events)
        if not doubling and not self.machine.may_double:
            _require(not count.double_us, "one-reader", f"two readers for {count.double_us} us")
            contested_us = count.contested_us
            _require(not contested_us, "one-owner", f"two members own one for {contested_us} us")
        rests = settled or bool(count.give_ups) or self.machine.restless
        _require(rests, "settles", "the group has not come to rest")
        _require(not count.lost, "delivered", f"{count.lost} records were skipped")
        if settled:
            late = ledger.undelivered()
            _require(not late, "delivered", f"{len(late)} partitions are behind at the end")
        self.machine.check()

    def _outcome(self, last_us: int, *, settled: bool) -> RunOutcome:
        environment = self.environment
        ledger, world, scenario = environment.ledger, environment.world, self._scenario
        count, traffic = ledger.count, environment.network.traffic
        begin_us = ledger.window_us or 0
        window_us = world.now_us - begin_us
        calm_us = ledger.calm_since_us
        running = [pod for pod in environment.pods.values() if pod.running]
        settle = None
        if settled and calm_us is not None:
            settle = in_seconds(max(0, calm_us - last_us))
        metrics: dict[str, float | None] = {
            **count.ownership(),
            "settle_s": settle,
            "empty_members": sum(not pod.participant.reading() for pod in running),
            "delivered": count.delivered,
            "duplicates": count.duplicates,
            "rewinds": count.rewinds,
            "lost": count.lost,
            "peak_backlog": count.peak_backlog,
            "drain_s": in_seconds(max(0, count.drained_us - last_us)),
            "requests": sum(traffic.requests.values()),
            "load_max_ms": self.machine.load_max_us() / 1_000,
        }
        return RunOutcome(
            machine=self._name,
            scenario=scenario.name,
            members=scenario.members,
            partitions=scenario.partitions,
            seed=self._seed,
            settings=self._settings,
            metrics=metrics,
            causes={cause: in_seconds(us) for cause, us in count.causes.items()},
            apis=dict(sorted(traffic.requests.items())),
            api_bytes=dict(sorted(traffic.bytes.items())),
            estimated=sorted(traffic.estimated),
            window_s=in_seconds(window_us),
            evidence="simulated",
            digest=world.digest,
            script=script_digest(self._forming + self.events),
            intervals=[
                each._replace(from_us=each.from_us - begin_us, to_us=each.to_us - begin_us)
                for each in ledger.intervals
            ],
        )


def run(
    machine: str, scenario: Scenario, seed: int = 0, options: RunOptions | None = None
) -> RunOutcome:
    """Run a machine through a scenario.

    Raises:
        WrongInput: the machine, a setting or the script is wrong.
        Violation: an invariant does not hold.
    """
    return Run(machine, scenario, seed, RunOptions() if options is None else options).finish()


def _end_of(event: Event) -> int:
    """Return when an event is over."""
    lasting = event.do in (
        "pause", "cut", "slow_poll", "poison", "coordinator_moves", "broker_dies",
    )  # fmt: skip
    return event.at_us + (int(event.amount) if lasting else 0)


def _require(holds: bool, invariant: str, text: str) -> None:  # noqa: FBT001 - what must hold
    if not holds:
        raise Violation(invariant, text)
