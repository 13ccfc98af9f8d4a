"""The consumer of the ZooKeeper era, as in Kafka 0.8.2: every member computes its own share.

What it does with ZooKeeper is in old_consumer_work.py; here are its process, its fetchers and the
ensemble of a run.
"""

import zlib
from typing import Any

from coterie.assignors.model import TopicPartition
from coterie.lab.environment import Environment
from coterie.lab.kernel import MS, SECOND
from coterie.lab.machine import Machine
from coterie.lab.machines.ensemble import Ensemble, Session, SessionExpired
from coterie.lab.machines.old_consumer_work import (
    IDS,
    OldConsumerWork,
    Report,
    Request,
    Requests,
    Sleep,
    StartFetchers,
    StopFetchers,
    Stopped,
    Work,
)
from coterie.lab.machines.readings import Readings
from coterie.lab.pods import Participant, Pod

_COMMIT_MS = 60_000
# The longest wait of a fetch for records: fetch.wait.max.ms.
_FETCH_WAIT_US = 100 * MS
_PING = (Request("ping", IDS),)
_CLOSE = Request("closeSession", IDS)
# ZooKeeper's client waits up to a second before it connects again, hears then that its session has
# ended, and opens another one. Until then its consumer reads on: 1.2 to 2.0 s after four pauses.
_RECONNECT_US = (700 * MS, 2_000 * MS)


class ZooKeeperGroup(Machine):
    """Old consumers and the ensemble through which they agree."""

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self.ensemble = Ensemble(environment)

    def participant(self, pod: Pod) -> Participant:
        """Return an old consumer."""
        return OldConsumer(self.ensemble, pod)

    def servers(self) -> list[str]:
        """Return the servers of the ensemble."""
        return [self.ensemble.endpoint(server) for server in range(self.ensemble.servers)]

    def follower_lags(self, lag_us: int) -> None:
        """Let the followers lag up to so long."""
        self.ensemble.lag_us = lag_us

    def learns_after_us(self, _pod: Pod) -> int:
        """Return the time of an event, since consumers watch the nodes of their topics."""
        return self.environment.network.latency_us()

    def broker_dies(self, down_us: int) -> int:
        """The ensemble is elsewhere, so only the partitions of the broker wait."""
        return min(down_us, self.environment.parameters.failover_ms * MS)

    def load_max_us(self) -> int:
        """Return the longest wait in the queue of a server."""
        return self.ensemble.load_max_us


class OldConsumer:
    """An old consumer in a pod."""

    def __init__(self, ensemble: Ensemble, pod: Pod) -> None:
        self.environment = ensemble.environment
        self.pod = pod
        parameters = self.environment.parameters
        self._ensemble = ensemble
        self._logic = OldConsumerWork(
            pod.identity,
            self.environment.workload.counts,
            parameters.zk_retries,
            parameters.zk_backoff_ms,
        )
        self._random = self.environment.world.stream(f"fetchers {pod.name}")
        self._session: Session | None = None
        self._held = Readings(self.environment, pod)
        self._checkpoint: dict[TopicPartition, int] = {}
        # What the watcher thread does now, and whether it is to rebalance once more.
        self._work: Work | None = None
        self._event = False
        self._closing = False

    def reading(self) -> set[TopicPartition]:
        """Return the partitions of its fetchers."""
        return set(self._held.reading)

    def slow_poll(self, duration_us: int) -> None:
        """Do nothing: the fetchers and the watcher have threads of their own."""

    def topic_grew(self) -> None:
        """React to the event that the node of a topic has changed."""
        self.environment.ledger.noticed(None)
        self._changed()

    # -- life --------------------------------------------------------------------------------------

    def start(self) -> None:
        """Register and rebalance."""
        parameters = self.environment.parameters
        self.pod.after(int(parameters.start_ms * MS), self._open, False)
        self.pod.after((parameters.commit_ms or _COMMIT_MS) * MS, self._commit_on_time)
        self.pod.after(parameters.zk_session_ms * MS // 3, self._ping)

    def _open(self, again: bool) -> None:  # noqa: FBT001 - called by the clock
        self._session = self._ensemble.connect(self.pod)
        self._session.on_event = self._changed
        self.environment.ledger.rejoining(self.pod.identity, True)
        if again:
            # Ownership is forgotten: nothing is deleted and nothing committed.
            self._checkpoint = dict(self._held.positions(self._held.reading))
        self._run(self._logic.register())

    def close(self) -> None:
        """Commit and close the session, so that all nodes go at once."""
        self.pod.after(self.environment.poll_wait_us(self.pod), self._close)

    def _close(self) -> None:
        session = self._session
        self._closing = True
        self._work = None
        if session is None or not session.alive:
            self._held.stop(set(self._held.owned))
            self.pod.exit()
            return
        changed = self._stop_fetchers().changed
        store = self._logic.storing(changed).all if changed else ()
        # All nodes of the session go at once.
        closing = (*store, _CLOSE)
        self._ensemble.call(session, closing, lambda _: self.pod.exit())

    def _ping(self) -> None:
        self.pod.after(self.environment.parameters.zk_session_ms * MS // 3, self._ping)
        session = self._session
        if session is not None and not self._closing:
            self._ensemble.call(session, _PING, self._pinged)

    def _pinged(self, result: Any) -> None:
        if isinstance(result, SessionExpired):
            self._expired()

    def _expired(self) -> None:
        """React to the end of the session, once."""
        session = self._session
        if session is None or self._closing:
            return
        self._session = None
        self._work = None
        self._event = False
        self.pod.after(self._random.randrange(*_RECONNECT_US), self._open, True)

    # -- the watcher thread ------------------------------------------------------------------------

    def _run(self, work: Work) -> None:
        """Do a piece of work, step by step."""
        self._work = work
        self._step(work, None)

    def _step(self, work: Work, result: Any) -> None:
        if work is not self._work or self._closing:
            return
        if isinstance(result, SessionExpired):
            self._expired()
            return
        while True:
            try:
                wanted = work.send(result)
            except StopIteration:
                self._work = None
                self._next()
                return
            if isinstance(wanted, Requests):
                session = self._session
                assert session is not None, "work needs a session"
                self._ensemble.call(session, wanted.all, lambda got: self._step(work, got))
                return
            if isinstance(wanted, Sleep):
                self.pod.after(wanted.ms * MS, self._step, work, None)
                return
            if isinstance(wanted, StopFetchers):
                stopped = self._stop_fetchers()
                self.pod.after(self._fetch_us(stopped), self._step, work, stopped)
                return
            self._carry_out(wanted)
            result = None

    def _fetch_us(self, stopped: Stopped) -> int:
        """Return how long the fetch lasts that a fetcher waits for before it stops."""
        if not stopped.owned:
            return 0
        next_record_us = SECOND // (self.environment.workload.rate * len(stopped.owned))
        return self._random.randrange(min(_FETCH_WAIT_US, next_record_us) + 1)

    def _carry_out(self, wanted: StartFetchers | Report) -> None:
        """Do what takes no time."""
        if isinstance(wanted, StartFetchers):
            self._held.take(wanted.offsets)
            for partition, offset in wanted.offsets.items():
                self._held.start(partition, offset)
                self._checkpoint[partition] = offset
        else:
            self._note(wanted)

    def _note(self, report: Report) -> None:
        """Pass on how the work goes on."""
        ledger, name = self.environment.ledger, self.pod.identity
        if report.event == "attempt":
            ledger.count.attempts += 1
        elif report.event == "view":
            ledger.view(name, zlib.crc32(",".join(report.members).encode()))
        elif report.event == "succeeds":
            ledger.regained(name)
            ledger.rejoining(name, self._event)
        elif report.event == "gives up":
            ledger.gave_up(name)
            ledger.rejoining(name, self._event)
        else:
            self.environment.world.note(report.event, name)

    def _changed(self) -> None:
        """React to the event that the members have changed."""
        self._event = True
        self.environment.ledger.rejoining(self.pod.identity, True)
        if self._work is None:
            self._next()

    def _next(self) -> None:
        if self._event:
            self._event = False
            self._run(self._logic.watch_and_rebalance())

    # -- offsets -----------------------------------------------------------------------------------

    def _stop_fetchers(self) -> Stopped:
        """Stop all fetchers; return what was stopped."""
        owned = sorted(self._held.owned)
        changed = {
            partition: offset
            for partition, offset in self._held.positions(self._held.reading).items()
            if self._checkpoint.get(partition) != offset
        }
        session = self._session
        if session is None or not session.alive:
            changed = {}
        self._held.stop(set(owned))
        self._checkpoint = {}
        return Stopped(owned, changed)

    def _commit_on_time(self) -> None:
        period_ms = self.environment.parameters.commit_ms or _COMMIT_MS
        self.pod.after(period_ms * MS, self._commit_on_time)
        changed = self._held.positions(self._held.reading)
        if changed and self._session is not None and not self._closing:
            self._checkpoint.update(changed)
            self._ensemble.call(self._session, self._logic.storing(changed).all, self._pinged)
